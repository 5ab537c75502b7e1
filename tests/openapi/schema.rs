use serde_json::{Value, json};

use crate::document::{Document, elements, members, texts};
use crate::pattern::Pattern;

/// Checks that a value is as a schema says; the error says what is not so, and where.
pub(crate) fn check(document: &Document, schema: &Value, value: &Value) -> Result<(), String> {
    let schema = document.resolve(schema);
    for (keyword, rule) in members(schema) {
        let holds = match keyword.as_str() {
            "type" => has_type(rule, value),
            "const" => rule == value,
            "enum" => elements(rule).any(|one| one == value),
            "pattern" => value.as_str().is_none_or(|text| Pattern::of(text_of(rule)).matches(text)),
            "minLength" => length(value).is_none_or(|length| length >= whole_of(rule)),
            "maxLength" => length(value).is_none_or(|length| length <= whole_of(rule)),
            "minimum" => whole(value).is_none_or(|number| number >= whole_of(rule)),
            "maximum" => whole(value).is_none_or(|number| number <= whole_of(rule)),
            "required" => !value.is_object() || texts(rule).iter().all(|name| value.get(name).is_some()),
            "properties" => check_members(document, rule, value).map(|()| true)?,
            "additionalProperties" => check_others(document, schema, rule, value).map(|()| true)?,
            "items" => check_elements(document, rule, value).map(|()| true)?,
            "oneOf" => elements(rule).filter(|one| check(document, one, value).is_ok()).count() == 1,
            "anyOf" => elements(rule).any(|one| check(document, one, value).is_ok()),
            "contentEncoding" => rule == "base64" && value.as_str().is_none_or(is_base64),
            "description" | "example" | "examples" | "default" | "format" => true,
            other => {
                other.starts_with("x-") || panic!("this test does not know what {other} means: {schema}")
            }
        };
        if !holds {
            return Err(format!("{} is not as `{keyword}` says: {rule}", brief(value)));
        }
    }
    Ok(())
}

fn check_members(document: &Document, rule: &Value, value: &Value) -> Result<(), String> {
    let Some(object) = value.as_object() else { return Ok(()) };
    for (name, schema) in members(rule) {
        if let Some(member) = object.get(name) {
            check(document, schema, member).map_err(|error| format!("{name}: {error}"))?;
        }
    }
    Ok(())
}

fn check_elements(document: &Document, rule: &Value, value: &Value) -> Result<(), String> {
    value.as_array().into_iter().flatten().try_for_each(|element| check(document, rule, element))
}

fn check_others(document: &Document, schema: &Value, rule: &Value, value: &Value) -> Result<(), String> {
    let known = |name: &str| schema.get("properties").is_some_and(|known| known.get(name).is_some());
    for (name, member) in value.as_object().into_iter().flatten().filter(|(name, _)| !known(name)) {
        match rule {
            Value::Bool(true) => {}
            Value::Bool(false) => return Err(format!("{name} is not described")),
            rule => check(document, rule, member).map_err(|error| format!("{name}: {error}"))?,
        }
    }
    Ok(())
}

fn has_type(rule: &Value, value: &Value) -> bool {
    let names = if rule.is_array() { texts(rule) } else { vec![text_of(rule)] };
    names.into_iter().any(|name| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("there is no type {other}"),
    })
}

/// RFC 4648, 4.
fn is_base64(text: &str) -> bool {
    let digits = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    text.len().is_multiple_of(4) && digits.bytes().all(is_digit)
}

fn length(value: &Value) -> Option<i128> {
    value.as_str().map(|text| text.chars().count() as i128)
}

/// A whole number of any size that JSON has.
pub(crate) fn whole(value: &Value) -> Option<i128> {
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))
}

fn whole_of(rule: &Value) -> i128 {
    whole(rule).unwrap_or_else(|| panic!("{rule} is no whole number"))
}

fn text_of(rule: &Value) -> &str {
    rule.as_str().unwrap_or_else(|| panic!("{rule} is no text"))
}

fn brief(value: &Value) -> String {
    let text = value.to_string();
    text[..text.floor_char_boundary(300)].to_owned()
}

#[test]
fn a_schema_finds_what_is_wrong() {
    let document = Document::read();
    let is_valid = |schema: &Value, value: &Value| check(&document, schema, value).is_ok();
    let object = json!({
        "type": "object",
        "required": ["a"],
        "properties": { "a": { "type": "integer", "minimum": 1, "maximum": u64::MAX }, "b": { "enum": ["x", "y"] } },
        "additionalProperties": false,
    });
    for value in [json!({ "a": 1 }), json!({ "a": u64::MAX, "b": "y" })] {
        assert!(is_valid(&object, &value), "{value}");
    }
    for value in [
        json!({}),
        json!({ "a": 0 }),
        json!({ "a": 1.5 }),
        json!({ "a": "1" }),
        json!({ "a": 1, "b": "z" }),
        json!({ "a": 1, "c": 1 }),
        json!([1]),
        json!(null),
    ] {
        assert!(!is_valid(&object, &value), "{value}");
    }
    let either = json!({ "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] });
    assert!(is_valid(&either, &json!({ "a": 1 })) && is_valid(&either, &json!({ "b": 1 })));
    assert!(!is_valid(&either, &json!({})) && !is_valid(&either, &json!({ "a": 1, "b": 1 })));
    let list = json!({ "type": ["array", "null"], "items": { "const": "x" } });
    assert!(is_valid(&list, &json!(null)) && is_valid(&list, &json!(["x", "x"])));
    assert!(!is_valid(&list, &json!(["x", "y"])) && !is_valid(&list, &json!("x")));
    let record = json!({ "$ref": "#/components/schemas/Record" });
    let etag = "\"0000000000000001-0002\"";
    assert!(is_valid(&record, &json!({ "key": "k", "etag": etag, "value_base64": "/w==" })));
    for value in [
        json!({ "etag": etag, "value": "v" }),
        json!({ "key": "k", "key_base64": "aw==", "etag": etag }),
        json!({ "key": "k", "etag": "0000000000000001-0002" }),
        json!({ "key": "k", "etag": etag, "value_base64": "/w=" }),
    ] {
        assert!(!is_valid(&record, &value), "{value}");
    }
}
