use serde_json::Value;

use crate::document::{Operation, members};
use crate::schema;
use crate::support::Response;

/// What any answer may have: they say where it ends, what becomes of its connection, and when it was made.
const GENERAL: [&str; 5] = ["connection", "content-length", "content-type", "date", "transfer-encoding"];

/// Checks that an answer is as the description of its operation says; the error says what is not.
pub(crate) fn check(operation: &Operation<'_>, response: &Response) -> Result<(), String> {
    let status = response.status;
    let described =
        operation.answer(status).ok_or_else(|| format!("the status {status} is not described"))?;
    check_headers(operation, described, response)?;
    check_body(operation, described, response).map_err(|error| format!("the body: {error}"))
}

fn check_headers(operation: &Operation<'_>, described: &Value, response: &Response) -> Result<(), String> {
    let headers = described.get("headers").map(members).into_iter().flatten();
    let headers: Vec<_> = headers
        .map(|(name, header)| (name.to_ascii_lowercase(), operation.document.resolve(header)))
        .collect();
    for (name, header) in &headers {
        match response.header(name) {
            Some(value) => {
                let value = value_of(value, &header["schema"]);
                schema::check(operation.document, &header["schema"], &value)
                    .map_err(|error| format!("{name}: {error}"))?;
            }
            None if header["required"] == true => return Err(format!("{name} is missing")),
            None => {}
        }
    }
    for (name, _) in &response.headers {
        let is_described = headers.iter().any(|(known, _)| known == name);
        if !is_described && !GENERAL.contains(&name.as_str()) {
            return Err(format!("the header {name} is not described"));
        }
    }
    if response.header("date").is_none() && response.status != 101 {
        return Err("date is missing".to_owned());
    }
    Ok(())
}

/// The value of a header, as the kind of value that the schema speaks of.
fn value_of(text: &str, schema: &Value) -> Value {
    let number = if schema["type"] == "integer" { text.parse::<u64>().ok() } else { None };
    number.map_or_else(|| Value::from(text), Value::from)
}

fn check_body(operation: &Operation<'_>, described: &Value, response: &Response) -> Result<(), String> {
    let media_type =
        response.header("content-type").map(|value| value.split(';').next().unwrap_or_default().trim());
    let contents = described.get("content").map(members);
    let Some(media_type) = media_type else {
        return check_absent(operation, contents.and_then(|contents| contents.values().next()), response);
    };
    let content = contents.and_then(|contents| contents.get(media_type));
    let content = content.ok_or_else(|| format!("{media_type} is not described"))?;
    if operation.method == "HEAD" {
        return if response.body.is_empty() { Ok(()) } else { Err("an answer to HEAD has one".to_owned()) };
    }
    match content.get("schema") {
        None => Ok(()),
        Some(schema) => check_content(operation, (media_type, schema), &response.body),
    }
}

/// Without a media type there is no body, which has to be what the description permits, if it has one.
fn check_absent(
    operation: &Operation<'_>,
    content: Option<&Value>,
    response: &Response,
) -> Result<(), String> {
    if !response.body.is_empty() {
        return Err("there is one without a content-type".to_owned());
    }
    match content.and_then(|content| content.get("schema")) {
        Some(schema) => schema::check(operation.document, schema, &Value::from("")),
        None if content.is_some() => Err("it is missing".to_owned()),
        None => Ok(()),
    }
}

fn check_content(
    operation: &Operation<'_>,
    (media_type, schema): (&str, &Value),
    body: &[u8],
) -> Result<(), String> {
    let check = |value: &Value| schema::check(operation.document, schema, value);
    let parse = |line: &str| serde_json::from_str::<Value>(line).map_err(|error| format!("{line}: {error}"));
    // What is no text is described as text all the same: OpenAPI has no other type for bytes.
    let text = String::from_utf8_lossy(body);
    match media_type {
        "application/json" => check(&parse(&text)?),
        "application/x-ndjson" => {
            if !text.is_empty() && !text.ends_with('\n') {
                return Err("the last line has no end".to_owned());
            }
            text.lines().filter(|line| !line.is_empty()).try_for_each(|line| check(&parse(line)?))
        }
        _ => check(&Value::from(text)),
    }
}

#[test]
fn an_answer_that_is_not_described_is_found() {
    let document = crate::document::Document::read();
    let operations = document.operations();
    let of = |id: &str| operations.iter().find(|operation| operation.id() == id).expect("an operation");
    let response = |status: u16, headers: &[(&str, &str)], body: &str| {
        let headers = [("date", "now")].iter().chain(headers);
        let headers = headers.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Response { status, headers, body: body.into(), chunks: None }
    };
    let etag = ("etag", "\"0000000000000001-0002\"");
    let (text, octets) =
        (("content-type", "text/plain; charset=utf-8"), ("content-type", "application/octet-stream"));
    let (length, lines) = (("content-length", "1"), ("content-type", "application/x-ndjson"));
    let retry = ("retry-after", "1");
    for (id, answer) in [
        ("getEntity", response(200, &[etag, octets, length], "v")),
        ("getEntity", response(404, &[text], "none\n")),
        ("getEntity", response(503, &[text, retry], "later\n")),
        ("putEntity", response(201, &[etag], "")),
        ("changeEntity", response(200, &[etag, text], "-5")),
        ("changeEntity", response(200, &[etag], "")),
        ("getEntities", response(200, &[lines], "\n{\"count\":3}\n")),
        ("headEntity", response(404, &[text], "")),
    ] {
        assert_eq!(check(of(id), &answer), Ok(()), "{id}: {answer:?}");
    }
    for (id, answer) in [
        ("getEntity", response(201, &[etag], "")),
        ("getEntity", response(200, &[octets, length], "v")),
        ("getEntity", response(200, &[("etag", "1"), octets, length], "v")),
        ("getEntity", response(200, &[etag, text, length], "v")),
        ("getEntity", response(200, &[etag, length], "v")),
        ("getEntity", response(200, &[etag, octets, length, ("server", "x")], "v")),
        ("getEntity", response(404, &[text], "")),
        ("getEntity", response(404, &[text], "two\nlines\n")),
        ("getEntity", response(404, &[], "")),
        ("getEntity", response(503, &[text], "later\n")),
        ("getEntity", response(503, &[text, ("retry-after", "soon")], "later\n")),
        ("putEntity", response(201, &[etag, text], "stored\n")),
        ("changeEntity", response(200, &[etag, text], "five")),
        ("getEntities", response(200, &[lines], "{\"count\":3")),
        ("getEntities", response(200, &[lines], "{\"counts\":3}\n")),
        ("headEntity", response(404, &[text], "none\n")),
    ] {
        assert!(check(of(id), &answer).is_err(), "{id}: {answer:?}");
    }
}
