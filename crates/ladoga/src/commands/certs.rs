use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ladoga_access::moment_text;
use ladoga_tls::{Certificate, certificates, read_bounded};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData, date_time_ymd,
};

use super::{Failure, complain, output, output_of_work};
use crate::certs_arguments::{AddCertsArguments, CertsCommand, CreateCertsArguments, Names, ShowArguments};

/// Only who owns a key may read it.
const KEY_MODE: u32 = 0o600;
const CERTIFICATE_MODE: u32 = 0o644;
/// Certificates count from before they were made: clocks of other machines may be late.
const COUNTS_BEFORE_S: u64 = 3_600;
const DAY_S: u64 = 86_400;
/// Whom an authority of ours is called.
const AUTHORITY: &str = "Ladoga certs";

/// Makes and shows certificates.
pub(crate) fn certs(command: &CertsCommand) -> Result<(), Failure> {
    match command {
        CertsCommand::Create(arguments) => create(arguments),
        CertsCommand::Add(arguments) => add(arguments),
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
    let valid = Valid::from_now(*days)?;
    let authority = authority(&valid).map_err(not_made)?;
    let mut files = Vec::from(pair(dir, "ca", &authority.pem(), authority.key()));
    files.extend(signed_for(dir, &authority, (hosts, clients), &valid).map_err(not_made)?);
    write_all(dir, &files)?;
    complain(format_args!("they count for {days} days; keep ca.key where no node is"));
    Ok(())
}

/// Makes certificates that an authority has signed which is there.
fn add(arguments: &AddCertsArguments) -> Result<(), Failure> {
    let AddCertsArguments { dir, hosts, clients, days } = arguments;
    let mut valid = Valid::from_now(*days)?;
    let (authority, to_s) = existing_authority(dir)?;
    let is_shortened = to_s < valid.to_s;
    valid.to_s = valid.to_s.min(to_s);
    let files = signed_for(dir, &authority, (hosts, clients), &valid).map_err(not_made)?;
    write_all(dir, &files)?;
    let expire = moment_text(valid.to_s * 1_000);
    let with = if is_shortened { ", when their authority does" } else { "" };
    complain(format_args!("they expire {expire}{with}"));
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "it is for `map_err`")]
fn not_made(error: rcgen::Error) -> Failure {
    Failure::Failed(format!("cannot make a certificate: {error}"))
}

/// The authority of a directory, and when it expires, in seconds since 1970.
fn existing_authority(dir: &Path) -> Result<(Issuer<'static, KeyPair>, u64), Failure> {
    let (path, key_path) = (dir.join("ca.pem"), dir.join("ca.key"));
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        let expected = "expected the authority that `ladoga certs create` made";
        Failure::Failed(format!("{}: {error}; {expected}", path.display()))
    };
    let content = read_bounded(&path).map_err(|error| failed(&path, &error))?;
    let found = certificates(&content).map_err(|error| failed(&path, &error))?;
    let Some(der) = found.first() else { return Err(failed(&path, &"it has no certificate")) };
    let certificate = Certificate::parse(der).map_err(|error| failed(&path, &error))?;
    if !certificate.is_authority || certificate.subject != format!("CN={AUTHORITY}") {
        return Err(failed(&path, &format!("it is that of {}", certificate.subject)));
    }
    let now_ms = ladoga_env::real::env()?.clock.wall_ms();
    certificate.check_time(now_ms).map_err(|why| failed(&path, &why))?;
    let key = read_bounded(&key_path).map_err(|error| failed(&key_path, &error))?;
    // The errors of the parser may show what was read.
    let key = str::from_utf8(&key).ok().and_then(|key| KeyPair::from_pem(key).ok());
    let key = key.ok_or_else(|| failed(&key_path, &"it is no private key"))?;
    // The certificate has the public key as it is encoded here.
    let public = key.subject_public_key_info();
    if !der.windows(public.len()).any(|window| window == public) {
        return Err(failed(&key_path, &format!("it is not the key of {}", path.display())));
    }
    let to_s = u64::try_from(certificate.not_after_s).unwrap_or(0);
    let valid = Valid { from_s: 0, to_s };
    Ok((Issuer::new(params(&[], AUTHORITY, &valid).map_err(not_made)?, key), to_s))
}

/// Certificates for these nodes and clients, and their keys.
fn signed_for(
    dir: &Path,
    authority: &Issuer<'_, KeyPair>,
    (hosts, clients): (&[Names], &[String]),
    valid: &Valid,
) -> Result<Vec<NewFile>, rcgen::Error> {
    let mut files = Vec::new();
    for Names(names) in hosts {
        let (certificate, key) = signed(authority, names, Use::Node, valid)?;
        files.extend(pair(dir, &names[0], &certificate, &key));
    }
    for client in clients {
        let names = std::slice::from_ref(client);
        let (certificate, key) = signed(authority, names, Use::Client, valid)?;
        files.extend(pair(dir, client, &certificate, &key));
    }
    Ok(files)
}

/// When certificates count, in seconds since 1970.
struct Valid {
    from_s: u64,
    to_s: u64,
}

impl Valid {
    fn from_now(days: u32) -> Result<Valid, Failure> {
        let now_s = ladoga_env::real::env()?.clock.wall_ms() / 1_000;
        let to_s = now_s + u64::from(days) * DAY_S;
        Ok(Valid { from_s: now_s.saturating_sub(COUNTS_BEFORE_S), to_s })
    }
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
    let mut params = params(&[], AUTHORITY, valid)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

fn signed(
    authority: &Issuer<'_, KeyPair>,
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

/// Writes all of them, or none if one of them is there or cannot be written, and prints their names.
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
    let mut made: Vec<&Path> = Vec::new();
    for NewFile { path, content, mode } in files {
        let created = fs::OpenOptions::new().write(true).create_new(true).mode(*mode).open(path);
        let written = created.and_then(|mut file| {
            made.push(path);
            file.write_all(content.as_bytes()).and_then(|()| file.sync_all())
        });
        if let Err(error) = written {
            // So that the same command can be given again.
            for path in made {
                _ = fs::remove_file(path);
            }
            return Err(failed(path, &error));
        }
    }
    let mut out = output();
    for file in files {
        writeln!(out, "{}", file.path.display())?;
    }
    Ok(())
}

fn show(arguments: &ShowArguments) -> Result<(), Failure> {
    let path = &arguments.file;
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("{}: {error}", path.display()));
    let content = read_bounded(path).map_err(|error| failed(&error))?;
    let found = certificates(&content).map_err(|error| failed(&error))?;
    let now_ms = ladoga_env::real::env()?.clock.wall_ms();
    let mut out = output_of_work();
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
