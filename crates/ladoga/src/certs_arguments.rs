use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::value_parsers::number;

const CERTS_HELP: &str = "\
These certificates are for trying TLS, and for networks of your own. An authority that others trust, such as Let's Encrypt, makes
files of the same kind.

Examples:
  ladoga certs create --dir certs --host localhost,127.0.0.1 --client alice
  ladoga serve --tls-cert certs/localhost.pem --tls-key certs/localhost.key
  ladoga put lake deep --url https://localhost:8080 --cacert certs/ca.pem
  curl --cacert certs/ca.pem 'https://localhost:8080/v0/entity?id=lake'

Only clients with a certificate:
  ladoga serve --tls-cert certs/localhost.pem --tls-key certs/localhost.key --tls-client-ca certs/ca.pem
  ladoga get lake --url https://localhost:8080 --cacert certs/ca.pem --cert certs/alice.pem --key certs/alice.key

A cluster, on each node with its own certificate:
  ladoga certs create --dir certs --host a --host b --host c
  ladoga serve --listen 0.0.0.0:8080 --insecure --cluster https://a:8080,https://b:8080,https://c:8080 \\
      --advertise https://a:8080 --tls-cert certs/a.pem --tls-key certs/a.key --peer-ca certs/ca.pem

Another node, or another client, of the same authority, which needs its key (`ca.key`):
  ladoga certs add --dir certs --host d --client bob

  ladoga certs show certs/a.pem

A running node reads its files again within two seconds, or at once on SIGHUP.

Exit codes: 0 if it was done; 1 if a file could not be read or written; 2 if the command line is wrong.";

#[derive(Debug, Args)]
#[command(after_help = CERTS_HELP)]
pub(crate) struct CertsArguments {
    #[command(subcommand)]
    pub(crate) command: CertsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CertsCommand {
    /// Make an authority, and certificates that it has signed
    #[command(after_help = CERTS_HELP)]
    Create(CreateCertsArguments),
    /// Make certificates that an authority has signed which `ladoga certs create` made
    #[command(after_help = CERTS_HELP)]
    Add(AddCertsArguments),
    /// Print whose the certificates of a file are, and when they expire
    Show(ShowArguments),
}

#[derive(Debug, Args)]
pub(crate) struct CreateCertsArguments {
    /// Directory for the files; created if it does not exist. Nothing in it is overwritten
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Names and addresses of a node, for one certificate, whose files are called as the first of them; give it once for each node
    #[arg(long = "host", value_name = "NAME,...", required = true, value_parser = parse_hosts)]
    pub(crate) hosts: Vec<Names>,
    /// Name of a client, for a certificate of its own; give it once for each client
    #[arg(long = "client", value_name = "NAME", value_parser = parse_name)]
    pub(crate) clients: Vec<String>,
    /// Days for which they count
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = number(1..=36_500_u32))]
    pub(crate) days: u32,
}

#[derive(Debug, Args)]
pub(crate) struct AddCertsArguments {
    /// Directory with `ca.pem` and `ca.key` of the authority, and for the new files. Nothing in it is overwritten
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Names and addresses of a node, for one certificate, whose files are called as the first of them; give it once for each node
    #[arg(long = "host", value_name = "NAME,...", required_unless_present = "clients", value_parser = parse_hosts)]
    pub(crate) hosts: Vec<Names>,
    /// Name of a client, for a certificate of its own; give it once for each client
    #[arg(long = "client", value_name = "NAME", value_parser = parse_name)]
    pub(crate) clients: Vec<String>,
    /// Days for which they count, and no longer than the authority does
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = number(1..=36_500_u32))]
    pub(crate) days: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// PEM file with certificates
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// What one certificate is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names(pub(crate) Vec<String>);

fn parse_hosts(text: &str) -> Result<Names, String> {
    text.split(',').map(parse_name).collect::<Result<_, _>>().map(Names)
}

/// A name that can be in a certificate, and the name of a file.
fn parse_name(text: &str) -> Result<String, String> {
    const NAME_BYTES_MAX: usize = 253;
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    let begins_well = text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == ':');
    if begins_well && text.len() <= NAME_BYTES_MAX && text.bytes().all(is_good) && text != "ca" {
        return Ok(text.to_owned());
    }
    Err("expected names and addresses, such as db.example.com,10.0.0.1; `ca` is that of the authority"
        .to_owned())
}
