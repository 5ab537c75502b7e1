use std::io::Write;

use ladoga_access::{Grant, Rate, TokenEntry, TokenFile, generate, moment_text};
use ring::rand::{SecureRandom, SystemRandom};

use super::{Failure, complain, output};
use crate::token_arguments::{CreateArguments, Expiry, RevokeArguments, TokenCommand, TokensFile};
use crate::tokens::TokenStore;

/// Makes, shows and revokes tokens.
pub(crate) fn token(command: &TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::Create(arguments) => create(arguments),
        TokenCommand::List(file) => list(file),
        TokenCommand::Revoke(arguments) => revoke(arguments),
    }
}

fn create(arguments: &CreateArguments) -> Result<(), Failure> {
    let CreateArguments { file, id, .. } = arguments;
    let mut store = TokenStore::begin(&file.tokens).map_err(Failure::Failed)?;
    if store.tokens.tokens.iter().any(|token| token.id == *id) {
        let path = file.tokens.display();
        return Err(Failure::Failed(format!("{path} has a token '{id}', expected another name")));
    }
    let mut random = [0; 32];
    let no_random = |_| Failure::Failed("the system has no random bytes".to_owned());
    SystemRandom::new().fill(&mut random).map_err(no_random)?;
    let (token, hash) = generate(id, random);
    let prefixes = arguments.prefix.iter().map(|prefix| Box::from(prefix.as_bytes()));
    let now_ms = ladoga_env::real::env()?.clock.wall_ms();
    let expires_at_ms = arguments.expires.map(|expiry| expires_at_ms(expiry, now_ms));
    if let Some(past_ms) = expires_at_ms.filter(|at_ms| *at_ms <= now_ms) {
        complain(format_args!(
            "warning: --expires is {}, which has passed: nobody can use the token",
            moment_text(past_ms)
        ));
    }
    store.tokens.tokens.push(TokenEntry {
        id: id.clone(),
        hash,
        grant: Grant::new(arguments.scopes, prefixes),
        expires_at_ms,
        requests: arguments.requests_per_second.and_then(Rate::per_second),
        bytes: arguments.bytes_per_second.and_then(Rate::per_second),
    });
    // It has to be one that a node can read.
    TokenFile::parse(store.tokens.text().as_bytes()).map_err(|error| Failure::Failed(error.to_string()))?;
    let unsynced = store.finish().map_err(Failure::Failed)?;
    // Also if nobody reads: then it is lost.
    writeln!(output(), "{token}").map_err(|error| {
        let tokens = file.tokens.display();
        Failure::Failed(format!(
            "{error}: nobody has seen the token, and it is stored. `ladoga token revoke --tokens '{tokens}' --id {id}` takes it back"
        ))
    })?;
    durable(unsynced)
}

/// Fails if a change may be lost, though it counts by now.
fn durable(unsynced: Option<String>) -> Result<(), Failure> {
    unsynced.map_or(Ok(()), |why| Err(Failure::Failed(why)))
}

const fn expires_at_ms(expiry: Expiry, now_ms: u64) -> u64 {
    match expiry {
        Expiry::At(at_ms) => at_ms,
        Expiry::After(ttl) => now_ms + ttl.ms(),
    }
}

fn list(file: &TokensFile) -> Result<(), Failure> {
    let tokens = TokenStore::read(&file.tokens).map_err(Failure::Failed)?;
    let mut out = output();
    for token in &tokens.tokens {
        writeln!(out, "{}", line(token))?;
    }
    Ok(())
}

fn line(token: &TokenEntry) -> String {
    let prefixes: Vec<String> =
        token.grant.prefixes().iter().map(|prefix| prefix.escape_ascii().to_string()).collect();
    let keys = if prefixes.is_empty() { "all keys".to_owned() } else { prefixes.join(" ") };
    let expires = token.expires_at_ms.map_or_else(|| "never".to_owned(), moment_text);
    let rate =
        |rate: Option<Rate>, unit| rate.map_or_else(String::new, |rate| format!("\t{} {unit}/s", rate.get()));
    format!(
        "{}\t{}\t{keys}\texpires {expires}{}{}",
        token.id,
        token.grant.scopes(),
        rate(token.requests, "requests"),
        rate(token.bytes, "bytes"),
    )
}

fn revoke(arguments: &RevokeArguments) -> Result<(), Failure> {
    let RevokeArguments { file, id } = arguments;
    // Without a file there is nothing to revoke, and none to make.
    TokenStore::read(&file.tokens).map_err(Failure::Failed)?;
    let mut store = TokenStore::begin(&file.tokens).map_err(Failure::Failed)?;
    let before = store.tokens.tokens.len();
    store.tokens.tokens.retain(|token| token.id != *id);
    if store.tokens.tokens.len() == before {
        return Err(Failure::Failed(format!("{} has no token '{id}'", file.tokens.display())));
    }
    durable(store.finish().map_err(Failure::Failed)?)
}
