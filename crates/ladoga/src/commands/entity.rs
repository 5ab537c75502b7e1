use std::ffi::OsStr;
use std::io::{IsTerminal, Read, Write, stdin, stdout};
use std::os::unix::ffi::OsStrExt;

use ladoga_model::VALUE_BYTES_MAX;

use super::{Failure, parse_url};
use crate::arguments::{KeyArguments, NodeArguments, PutArguments};
use crate::client::{Request, Response, percent_encoded};

/// Prints the value of a key.
pub(crate) fn get(arguments: &KeyArguments) -> Result<(), Failure> {
    let response = ask("GET", &arguments.key, &arguments.node)?;
    match response.status {
        200 => print_value(response),
        404 => Err(Failure::Failed(format!("the key '{}' does not exist", arguments.key.display()))),
        _ => Err(Failure::Failed(response.line())),
    }
}

/// As it is for programs; for people, on a line of its own.
fn print_value(response: Response) -> Result<(), Failure> {
    let mut out = stdout().lock();
    response.body(|piece| out.write_all(piece).map_err(Failure::from))?;
    if out.is_terminal() {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Stores a value.
pub(crate) fn put(arguments: &PutArguments) -> Result<(), Failure> {
    let value = match &arguments.value {
        Some(value) => value.as_bytes().to_vec(),
        None => read_value()?,
    };
    let ttl = arguments.ttl.map(|ttl| format!("&ttl={}ms", ttl.ms()));
    let target = target(&arguments.key, ttl.as_deref().unwrap_or(""));
    let url = parse_url(&arguments.node.url)?;
    let response = Request { method: "PUT", target, body: Some(&value) }.send(&url)?;
    expect(201, response)
}

fn read_value() -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    stdin().lock().take(VALUE_BYTES_MAX + 1).read_to_end(&mut value)?;
    if value.len() as u64 > VALUE_BYTES_MAX {
        let reason = format!("the value is too large; at most {VALUE_BYTES_MAX} bytes are allowed");
        return Err(Failure::Failed(reason));
    }
    Ok(value)
}

/// Removes a key.
pub(crate) fn delete(arguments: &KeyArguments) -> Result<(), Failure> {
    let response = ask("DELETE", &arguments.key, &arguments.node)?;
    expect(202, response)
}

fn ask(method: &'static str, key: &OsStr, node: &NodeArguments) -> Result<Response, Failure> {
    let url = parse_url(&node.url)?;
    Ok(Request { method, target: target(key, ""), body: None }.send(&url)?)
}

/// The request target of a key, with further parameters.
fn target(key: &OsStr, parameters: &str) -> String {
    format!("/v0/entity?id={}{parameters}", percent_encoded(key.as_bytes()))
}

fn expect(status: u16, response: Response) -> Result<(), Failure> {
    if response.status == status { Ok(()) } else { Err(Failure::Failed(response.line())) }
}
