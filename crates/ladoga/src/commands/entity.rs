use std::ffi::OsStr;
use std::io::{Read, Write, stdin};
use std::os::unix::ffi::OsStrExt;

use ladoga_model::{Durability, VALUE_BYTES_MAX};

use super::lines::{STDIN, not_read};
use super::{Failure, node_url, output};
use crate::arguments::{
    DeleteArguments, ExpireArguments, GetArguments, IncrementArguments, Life, NodeArguments, PutArguments,
};
use crate::client::{Request, Response, TEXT, percent_encoded};

/// Prints the value of a key, or its `ETag`.
pub(crate) fn get(arguments: &GetArguments) -> Result<(), Failure> {
    let GetArguments { key, etag, node } = arguments;
    let method = if *etag { "HEAD" } else { "GET" };
    let response = ask(Ask { method, ..Ask::new(key) }, node)?;
    match response.status {
        200 => {
            response.check_value()?;
            if *etag { print_etag(&response) } else { print_value(response) }
        }
        404 => Err(not_found(response, key)),
        _ => Err(Failure::refused(response)),
    }
}

fn not_found(response: Response, key: &OsStr) -> Failure {
    match response.check_absent() {
        Ok(()) => Failure::Failed(format!("the key '{}' does not exist", key.display())),
        Err(error) => error.into(),
    }
}

/// As it is for programs; for people, on a line of its own.
fn print_value(response: Response) -> Result<(), Failure> {
    let mut out = output();
    response.body(|piece| out.write_all(piece).map_err(Failure::from))?;
    if out.is_terminal() {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// With its quotes, as other clients need it in `If-Match`.
fn print_etag(response: &Response) -> Result<(), Failure> {
    Ok(writeln!(output(), "{}", response.etag()?)?)
}

/// Stores a value.
pub(crate) fn put(arguments: &PutArguments) -> Result<(), Failure> {
    let condition = match &arguments.if_match {
        Some(etag) => Some(("if-match", entity_tag(etag)?)),
        None => arguments.if_absent.then(|| ("if-none-match", "*".to_owned())),
    };
    let value = match &arguments.value {
        Some(value) => value.as_bytes().to_vec(),
        None => read_value()?,
    };
    let life = arguments.ttl.map(Life::Limited);
    let fsync = arguments.write.fsync;
    let put = Ask { method: "PUT", body: Some(&value), condition, life, fsync, ..Ask::new(&arguments.key) };
    expect(201, ask(put, &arguments.node)?, &arguments.key)
}

fn read_value() -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    let read = stdin().lock().take(VALUE_BYTES_MAX + 1).read_to_end(&mut value);
    read.map_err(|error| Failure::Failed(not_read(STDIN, &error)))?;
    if value.len() as u64 > VALUE_BYTES_MAX {
        let reason = format!("the value is too large; at most {VALUE_BYTES_MAX} bytes are allowed");
        return Err(Failure::Failed(reason));
    }
    Ok(value)
}

/// Removes a key.
pub(crate) fn delete(arguments: &DeleteArguments) -> Result<(), Failure> {
    let etag = arguments.if_match.as_deref().map(entity_tag).transpose()?;
    let condition = etag.map(|etag| ("if-match", etag));
    let delete =
        Ask { method: "DELETE", condition, fsync: arguments.write.fsync, ..Ask::new(&arguments.key) };
    expect(202, ask(delete, &arguments.node)?, &arguments.key)
}

/// Adds to a number, and prints the sum.
pub(crate) fn increment(arguments: &IncrementArguments) -> Result<(), Failure> {
    let (by, fsync) = (Some(arguments.by), arguments.write.fsync);
    let response = ask(Ask { method: "POST", by, fsync, ..Ask::new(&arguments.key) }, &arguments.node)?;
    if response.status != 200 {
        return Err(Failure::refused(response));
    }
    response.etag()?;
    let sum = response.number("the sum")?;
    Ok(writeln!(output(), "{sum}")?)
}

/// Changes when a value expires.
pub(crate) fn expire(arguments: &ExpireArguments) -> Result<(), Failure> {
    let ExpireArguments { key, if_match, write, node, .. } = arguments;
    let etag = if_match.as_deref().map(entity_tag).transpose()?;
    let condition = etag.map(|etag| ("if-match", etag));
    let (life, fsync) = (Some(arguments.life()), write.fsync);
    let response = ask(Ask { method: "POST", condition, life, fsync, ..Ask::new(key) }, node)?;
    if response.status == 404 {
        return Err(not_found(response, key));
    }
    expect(200, response, key)
}

/// An entity tag as it was typed, with its quotes or without.
fn entity_tag(typed: &str) -> Result<String, Failure> {
    let bare = typed.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(typed);
    let is_opaque = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'*';
    match bare {
        "*" => Ok("*".to_owned()),
        _ if !bare.is_empty() && bare.bytes().all(is_opaque) => Ok(format!("\"{bare}\"")),
        _ => Err(Failure::Usage(format!(
            "--if-match is '{typed}', expected an ETag as `ladoga get --etag` prints it, or *"
        ))),
    }
}

/// What is asked of an entity.
struct Ask<'a> {
    method: &'static str,
    key: &'a OsStr,
    body: Option<&'a [u8]>,
    condition: Option<(&'static str, String)>,
    /// What is to be added.
    by: Option<i64>,
    /// How long what is stored is to live.
    life: Option<Life>,
    /// How durable it is to be before the answer.
    fsync: Option<Durability>,
}

impl<'a> Ask<'a> {
    fn new(key: &'a OsStr) -> Ask<'a> {
        Ask { method: "GET", key, body: None, condition: None, by: None, life: None, fsync: None }
    }
}

fn ask(ask: Ask<'_>, node: &NodeArguments) -> Result<Response, Failure> {
    let Ask { method, key, body, condition, by, life, fsync } = ask;
    let url = node_url(node)?;
    let by = by.map_or_else(String::new, |by| format!("&increment={by}"));
    let ttl = match life {
        None => String::new(),
        Some(Life::Limited(ttl)) => format!("&ttl={}ms", ttl.ms()),
        Some(Life::Unlimited) => "&ttl=none".to_owned(),
    };
    let fsync = fsync.map_or_else(String::new, |fsync| format!("&fsync={}", fsync.word()));
    let target = format!("/v0/entity?id={}{by}{ttl}{fsync}", percent_encoded(key.as_bytes()));
    let fields = condition.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Ok(Request { method, target, fields, body }.send_in_time(&url)?)
}

fn expect(status: u16, response: Response, key: &OsStr) -> Result<(), Failure> {
    if response.status == status {
        return Ok(response.check_done()?);
    }
    if response.status == 412 && response.is_of_type(TEXT) {
        let now = response.header("etag").map_or_else(
            || "it does not exist".to_owned(),
            |etag| format!("the ETag of its newest version is {etag}"),
        );
        let reason =
            format!("the key '{}' is not as expected, and nothing was changed; {now}", key.display());
        return Err(Failure::Failed(reason));
    }
    Err(Failure::refused(response))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etag_may_be_typed_with_its_quotes_or_without() {
        let tag = |typed| entity_tag(typed).ok();
        assert_eq!(tag("\"0019-0000\"").as_deref(), Some("\"0019-0000\""));
        assert_eq!(tag("0019-0000").as_deref(), Some("\"0019-0000\""));
        assert_eq!([tag("*"), tag("\"*\"")], [Some("*".to_owned()), Some("*".to_owned())]);
        for typed in ["", "\"", "\"\"", "a b", "a\nb", "a\"b", "a*", "\"a\", \"b\""] {
            assert!(matches!(entity_tag(typed), Err(Failure::Usage(_))), "{typed:?}");
        }
    }
}
