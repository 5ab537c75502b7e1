use std::fs;
use std::io::{self, Write, stdout};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ladoga_access::moment_text;
use ladoga_tls::{Certificate, certificates, read_bounded};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use super::{Failure, complain};
use crate::certs_arguments::{CertsCommand, CreateCertsArguments, Names, ShowArguments};

/// Only who owns a key may read it.
const KEY_MODE: u32 = 0o600;
const CERTIFICATE_MODE: u32 = 0o644;
/// Certificates count from before they were made: clocks of other machines may be late.
const COUNTS_BEFORE_S: u64 = 3_600;
const DAY_S: u64 = 86_400;

/// Makes and shows certificates.
pub(crate) fn certs(command: &CertsCommand) -> Result<(), Failure> {
    match command {
        CertsCommand::Create(arguments) => create(arguments),
        CertsCommand::Show(arguments) => show(arguments),
    }
}

/// A file that is to be written.
struct NewFile {
    path: PathBuf,
    content: String,
    mode: u32,
}

fn create(arguments: &CreateCertsArguments) -> Result<(), Failure> {
    let CreateCertsArguments { dir, hosts, clients, days } = arguments;
    let now_s = ladoga_env::real::env()?.clock.wall_ms() / 1_000;
    let valid =
        Valid { from_s: now_s.saturating_sub(COUNTS_BEFORE_S), to_s: now_s + u64::from(*days) * DAY_S };
    let failed = |error: rcgen::Error| Failure::Failed(format!("cannot make a certificate: {error}"));
    let authority = authority(&valid).map_err(failed)?;
    let mut files = Vec::from(pair(dir, "ca", &authority.pem(), authority.key()));
    for Names(names) in hosts {
        let (certificate, key) = signed(&authority, names, Use::Node, &valid).map_err(failed)?;
        files.extend(pair(dir, &names[0], &certificate, &key));
    }
    for client in clients {
        let names = std::slice::from_ref(client);
        let (certificate, key) = signed(&authority, names, Use::Client, &valid).map_err(failed)?;
        files.extend(pair(dir, client, &certificate, &key));
    }
    write_all(dir, &files)?;
    let mut out = stdout().lock();
    for file in files {
        writeln!(out, "{}", file.path.display())?;
    }
    complain(format_args!("they count for {days} days; keep ca.key where no node is"));
    Ok(())
}

/// When certificates count, in seconds since 1970.
struct Valid {
    from_s: u64,
    to_s: u64,
}

/// What one is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// For clients to know a node by, and for other nodes.
    Node,
    /// For a node to know a client by.
    Client,
}

fn authority(valid: &Valid) -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = params(&[], "Ladoga certs", valid)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

fn signed(
    authority: &CertifiedIssuer<'static, KeyPair>,
    names: &[String],
    for_use: Use,
    valid: &Valid,
) -> Result<(String, KeyPair), rcgen::Error> {
    let mut params = params(names, &names[0], valid)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    if for_use == Use::Node {
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    }
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, authority)?.pem(), key))
}

fn params(names: &[String], subject: &str, valid: &Valid) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, subject);
    let at = |since_s: u64| date_time_ymd(1970, 1, 1) + Duration::from_secs(since_s);
    (params.not_before, params.not_after) = (at(valid.from_s), at(valid.to_s));
    Ok(params)
}

fn pair(dir: &Path, name: &str, certificate: &str, key: &KeyPair) -> [NewFile; 2] {
    // A colon of an address would be one of a list of paths.
    let path = |end: &str| dir.join(format!("{}.{end}", name.replace(':', "-")));
    [
        NewFile { path: path("pem"), content: certificate.to_owned(), mode: CERTIFICATE_MODE },
        NewFile { path: path("key"), content: key.serialize_pem(), mode: KEY_MODE },
    ]
}

/// Writes all of them, or none if one of them is there.
#[expect(clippy::disallowed_methods, reason = "keys are no part of a store; its disk seam is not for them")]
fn write_all(dir: &Path, files: &[NewFile]) -> Result<(), Failure> {
    let failed =
        |path: &Path, error: &io::Error| Failure::Failed(format!("cannot write {}: {error}", path.display()));
    for (index, file) in files.iter().enumerate() {
        let path = file.path.display();
        if files[..index].iter().any(|other| other.path == file.path) {
            return Err(Failure::Usage(format!("{path} would be written twice, expected a name once")));
        }
        if file.path.exists() {
            return Err(Failure::Failed(format!(
                "{path} exists; expected a directory without it: nothing was written"
            )));
        }
    }
    fs::create_dir_all(dir).map_err(|error| failed(dir, &error))?;
    for NewFile { path, content, mode } in files {
        let created = fs::OpenOptions::new().write(true).create_new(true).mode(*mode).open(path);
        created
            .and_then(|mut file| file.write_all(content.as_bytes()).and_then(|()| file.sync_all()))
            .map_err(|error| failed(path, &error))?;
    }
    Ok(())
}

fn show(arguments: &ShowArguments) -> Result<(), Failure> {
    let path = &arguments.file;
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("{}: {error}", path.display()));
    let content = read_bounded(path).map_err(|error| failed(&error))?;
    let found = certificates(&content).map_err(|error| failed(&error))?;
    let now_ms = ladoga_env::real::env()?.clock.wall_ms();
    let mut out = stdout().lock();
    for certificate in &found {
        let certificate = Certificate::parse(certificate).map_err(|error| failed(&error))?;
        let at = |since_s: i64| moment_text(u64::try_from(since_s).unwrap_or(0).saturating_mul(1_000));
        let counts = certificate.check_time(now_ms).err().map_or_else(String::new, |why| format!(" ({why})"));
        writeln!(out, "subject   {}", certificate.subject)?;
        if certificate.is_authority {
            writeln!(out, "          an authority")?;
        }
        writeln!(out, "names     {}", certificate.names.join(", "))?;
        writeln!(out, "signed by {}", certificate.issuer)?;
        writeln!(out, "from      {}", at(certificate.not_before_s))?;
        writeln!(out, "expires   {}{counts}", at(certificate.not_after_s))?;
    }
    Ok(())
}
