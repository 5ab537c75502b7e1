use ladoga_model::Version;

use super::*;

fn parse(line: &str) -> Result<BatchOperation, String> {
    BatchOperation::parse(line.as_bytes()).map_err(|error| error.to_string())
}

fn action(line: &str) -> BatchAction {
    parse(line).expect(line).action
}

const VERSION: Version = Version { timestamp: 1, node: 2 };
const ETAG: &str = "\\\"0000000000000001-0002\\\"";

#[test]
fn an_operation_is_an_object() {
    let get = parse(" {\"op\":\"get\", \"key\":\"a\"} \r").expect("an operation");
    assert_eq!((&get.key[..], get.action), (&b"a"[..], BatchAction::Get(Conditions::default())));
    let put = action("{\"value\":\"\\u00e9\\n\",\"key\":\"\\u0000\",\"op\":\"put\",\"ttl\":\"5m\"}");
    let ttl = Ttl::of_ms(300_000);
    let value = Bytes::from("\u{e9}\n");
    assert_eq!(put, BatchAction::Put { value, ttl, precondition: Precondition::None });
    let delete = action("{\"op\":\"delete\",\"key_base64\":\"/w==\"}");
    assert_eq!(delete, BatchAction::Delete(Precondition::None));
    assert_eq!(&parse("{\"op\":\"delete\",\"key_base64\":\"/w==\"}").expect("bytes").key[..], b"\xff");
    let put = action("{\"op\":\"put\",\"key\":\"a\",\"value_base64\":\"\"}");
    assert!(matches!(put, BatchAction::Put { value, .. } if value.is_empty()));
    for (text, by) in [("", 1), (",\"by\":-5", -5), (",\"by\":-9223372036854775808", i64::MIN)] {
        let increment = action(&format!("{{\"op\":\"increment\",\"key\":\"a\"{text}}}"));
        assert_eq!(increment, BatchAction::Increment { by, precondition: Precondition::None });
    }
}

#[test]
fn conditions_are_those_of_the_header_fields() {
    let of = |conditions: &str| action(&format!("{{\"op\":\"delete\",\"key\":\"a\",{conditions}}}"));
    let if_match = Precondition::IfMatch([VERSION].into());
    assert_eq!(of(&format!("\"if_match\":\"{ETAG}\"")), BatchAction::Delete(if_match));
    assert_eq!(of("\"if_match\":\"*\""), BatchAction::Delete(Precondition::IfMatchAny));
    assert_eq!(of("\"if_none_match\":\"*\""), BatchAction::Delete(Precondition::IfNoneMatchAny));
    let get = action(&format!("{{\"op\":\"get\",\"key\":\"a\",\"if_none_match\":\"{ETAG}\"}}"));
    let BatchAction::Get(conditions) = get else { panic!("{get:?}") };
    assert_eq!(conditions.of_read(Some(VERSION)), super::super::ReadVerdict::NotModified);
    for (condition, named) in [
        ("\"if_match\":\"0000000000000001-0002\"".to_owned(), "with their quotes"),
        ("\"if_match\":\"\"".to_owned(), "if_match"),
        (format!("\"if_none_match\":\"{ETAG}\""), "expected *"),
    ] {
        let refused = parse(&format!("{{\"op\":\"delete\",\"key\":\"a\",{condition}}}"));
        assert!(refused.clone().is_err_and(|error| error.contains(named)), "{condition}: {refused:?}");
    }
}

#[test]
fn what_is_no_operation_is_named() {
    for (line, named) in [
        ("get a", "'get a'"),
        ("[\"get\",\"a\"]", "expected a JSON object"),
        ("", "''"),
        ("{}", "op"),
        ("{\"op\":\"get\"", "column"),
        ("{\"op\":\"get\",\"key\":\"a\"} {}", "trailing"),
        ("{\"op\":\"get\",\"key\":\"a\"}\u{0}", "trailing"),
        ("{\"op\":\"patch\",\"key\":\"a\"}", "op is 'patch', expected get, put, delete or increment"),
        ("{\"op\":\"GET\",\"key\":\"a\"}", "op is 'GET'"),
        ("{\"op\":{\"get\":null},\"key\":\"a\"}", "expected a string"),
        ("{\"op\":null,\"key\":\"a\"}", "null"),
        ("{\"op\":\"get\",\"op\":\"put\",\"key\":\"a\"}", "op"),
        ("{\"op\":\"get\",\"key\":\"a\",\"key\":\"b\"}", "key"),
        (
            "{\"op\":\"get\",\"key\":\"a\",\"if-match\":\"*\"}",
            "unknown field `if-match`, expected one of `op`, `key`, `key_base64`, `value`, `value_base64`, `ttl`, `by`, `if_match`, `if_none_match`",
        ),
        ("{\"op\":\"get\",\"key\":\"a\",\"if_match\":null}", "null"),
        ("{\"op\":\"get\",\"key\":{\"a\":[[[[]]]]}}", "expected a string"),
        ("{\"op\":\"get\",\"key\":7}", "expected a string"),
        ("{\"op\":\"get\",\"key\":\"\\ud800\"}", "hex escape"),
        ("{\"op\":\"get\"}", "key and key_base64 are missing"),
        ("{\"op\":\"get\",\"key\":\"a\",\"key_base64\":\"YQ==\"}", "together"),
        ("{\"op\":\"get\",\"key_base64\":\"YQ\"}", "key_base64"),
        ("{\"op\":\"get\",\"key\":\"\"}", "the key is empty"),
        ("{\"op\":\"put\",\"key\":\"a\"}", "value and value_base64 are missing"),
        ("{\"op\":\"put\",\"key\":\"a\",\"value\":\"\",\"value_base64\":\"\"}", "together"),
        ("{\"op\":\"put\",\"key\":\"a\",\"value\":\"\",\"ttl\":\"60\"}", "ttl is '60'"),
        ("{\"op\":\"put\",\"key\":\"a\",\"value\":\"\",\"ttl\":\"none\"}", "ttl is 'none'"),
        ("{\"op\":\"put\",\"key\":\"a\",\"value\":\"\",\"by\":1}", "only for increment"),
        ("{\"op\":\"get\",\"key\":\"a\",\"value\":\"\"}", "only for put"),
        ("{\"op\":\"delete\",\"key\":\"a\",\"ttl\":\"5m\"}", "only for put"),
        ("{\"op\":\"increment\",\"key\":\"a\",\"by\":1.5}", "floating point"),
        (
            "{\"op\":\"increment\",\"key\":\"a\",\"by\":\"1\"}",
            "string \"1\", expected a 64-bit integer, such as 1 or -5",
        ),
        ("{\"op\":\"increment\",\"key\":\"a\",\"by\":9223372036854775808}", "9223372036854775808"),
    ] {
        let refused = parse(line);
        assert!(refused.clone().is_err_and(|error| error.contains(named)), "{line}: {refused:?}");
    }
    assert!(BatchOperation::parse(b"{\"op\":\"get\",\"key\":\"\xff\"}").is_err(), "no UTF-8");
    let long = "k".repeat(4_097);
    let refused = parse(&format!("{{\"op\":\"get\",\"key\":\"{long}\"}}"));
    assert_eq!(refused, Err("the key has 4097 bytes, expected 1 to 4096".to_owned()));
}

#[test]
fn what_is_repeated_of_a_line_is_short_and_can_be_printed() {
    let name = "n\\u0007".repeat(10_000);
    let refused = parse(&format!("{{\"{name}\":1}}")).expect_err("no such member");
    assert!(refused.len() < 400 && refused.contains("unknown field"), "{refused}");
    assert!(refused.ends_with("`if_match`, `if_none_match`"), "{refused}");
    assert!(!refused.chars().any(char::is_control), "{refused}");
    let refused = parse(&"x".repeat(10_000)).expect_err("no object");
    assert!(refused.len() < 200, "{refused}");
}
