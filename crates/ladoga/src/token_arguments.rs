use std::path::PathBuf;

use clap::{Args, Subcommand};
use ladoga_access::{BYTES_PER_SECOND_MAX, REQUESTS_PER_SECOND_MAX, Scope, Scopes, TokenId, parse_moment};
use ladoga_model::Ttl;

use crate::value_parsers::number;

const TOKEN_HELP: &str = "\
Scopes: read, write, delete, range, changes, metrics, profile, admin; or all.

Only a hash of each secret is in the file; the token itself is printed once. Who keeps it in a file does so with umask 077. A running node reads the file again within two seconds, or at once on SIGHUP. Clients have the
token in LADOGA_TOKEN, or in a file that --token-file names.

Examples:
  ladoga token create --tokens tokens.toml --id admin --scopes all
  ladoga token create --tokens tokens.toml --id shop --scopes read,write --prefix shop: --expires 90d
  ladoga token list --tokens tokens.toml
  ladoga token revoke --tokens tokens.toml --id shop

Exit codes: 0 if it is done; 1 if the file cannot be read or written, or has no such token; 2 if the command line is wrong.";

#[derive(Debug, Args)]
#[command(after_help = TOKEN_HELP)]
pub(crate) struct TokenArguments {
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token, and print it: nobody can print it again
    Create(CreateArguments),
    /// Print which tokens there are, and what they allow
    List(TokensFile),
    /// Have a token not count any more
    Revoke(RevokeArguments),
}

#[derive(Debug, Args)]
pub(crate) struct TokensFile {
    /// File of tokens; `create` makes one if there is none
    #[arg(long, value_name = "FILE", env = "LADOGA_TOKENS")]
    pub(crate) tokens: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct CreateArguments {
    #[command(flatten)]
    pub(crate) file: TokensFile,
    /// Name of the token: 1 to 64 letters, digits, '.', '_' or '-'
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    pub(crate) id: TokenId,
    /// What it may do: a list such as read,write, or all
    #[arg(long, value_name = "LIST", value_parser = parse_scopes)]
    pub(crate) scopes: Scopes,
    /// What keys begin with; can be given several times [default: any key]
    #[arg(long, value_name = "PREFIX", value_parser = parse_prefix)]
    pub(crate) prefix: Vec<String>,
    /// When it ends: a duration such as 90d, or a moment such as 2027-01-31T12:00:00Z [default: never]
    #[arg(long, value_name = "WHEN", value_parser = parse_expiry)]
    pub(crate) expires: Option<Expiry>,
    /// Requests a second [default: as many as the node can serve]
    #[arg(long, value_name = "N", value_parser = number(1..=REQUESTS_PER_SECOND_MAX))]
    pub(crate) requests_per_second: Option<u64>,
    /// Bytes of values a second, in both directions together [default: as many as the node can serve]
    #[arg(long, value_name = "N", value_parser = number(1..=BYTES_PER_SECOND_MAX))]
    pub(crate) bytes_per_second: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct RevokeArguments {
    #[command(flatten)]
    pub(crate) file: TokensFile,
    /// Name of the token
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    pub(crate) id: TokenId,
}

/// When a token ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expiry {
    /// After so long.
    After(Ttl),
    /// At this time, in milliseconds since 1970.
    At(u64),
}

fn parse_id(text: &str) -> Result<TokenId, String> {
    TokenId::parse(text).ok_or_else(|| format!("expected {}", TokenId::EXPECTED))
}

fn parse_scopes(text: &str) -> Result<Scopes, String> {
    Scopes::parse(text).map_err(|word| {
        let words = Scope::ALL.map(Scope::word).join(", ");
        match &*word {
            "all" => format!("'all' has every scope, expected it alone, or some of {words} without it"),
            _ => format!("'{word}' is no scope, expected some of {words}, or all alone"),
        }
    })
}

fn parse_prefix(text: &str) -> Result<String, String> {
    match text.len() {
        1..=ladoga_model::KEY_BYTES_MAX => Ok(text.to_owned()),
        _ => Err(format!("expected 1 to {} bytes", ladoga_model::KEY_BYTES_MAX)),
    }
}

fn parse_expiry(text: &str) -> Result<Expiry, String> {
    if let Some(moment) = parse_moment(text) {
        return Ok(Expiry::At(moment));
    }
    Ttl::parse(text.as_bytes())
        .map(Expiry::After)
        .map_err(|_| "expected a duration such as 90d, or a moment such as 2027-01-31T12:00:00Z".to_owned())
}
