use serde_json::{Map, Value};

use crate::document::{Document, elements, members, texts};
use crate::pattern::Pattern;
use crate::schema::{check, whole};
use crate::support::Random;

/// Texts that are wrong in one way or another for most parameters that are not any text.
const WRONG_TEXTS: [&str; 18] = [
    "",
    "x",
    "-",
    "-1",
    "+1",
    "0",
    "1",
    "1.5",
    "1e3",
    "0x1",
    " 1",
    "1 ",
    "1,2",
    "\"",
    "\"a\" \"b\"",
    "TRUE",
    "none ",
    "99999999999999999999",
];
/// Few enough that requests meet each other, and each with something of its own.
const KEYS: [&[u8]; 10] = [
    b"a",
    b"b",
    b"key",
    b"\0",
    b"\xff\xff",
    b"a\nb",
    b"100%",
    b"a+b c",
    b"&id=x#?",
    "\u{43a}\u{43b}".as_bytes(),
];

/// One of several.
pub(crate) fn choose<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[random.below(from.len() as u64) as usize]
}

/// Something that a schema permits, as a parameter has it.
pub(crate) fn permitted(schema: &Value, random: &mut Random) -> Vec<u8> {
    let examples: Vec<&Value> = elements(&schema["examples"]).chain(elements(&schema["enum"])).collect();
    if let Some(only) = schema.get("const") {
        as_text(only)
    } else if !examples.is_empty() {
        as_text(choose(random, &examples))
    } else if schema.get("x-bytes").is_some() {
        choose(random, &KEYS).to_vec()
    } else if schema.get("contentEncoding").is_some() {
        choose(random, &[&b""[..], b"/w==", b"dGV4dA=="]).to_vec()
    } else if let Some(pattern) = schema["pattern"].as_str() {
        Pattern::of(pattern).text(random).into_bytes()
    } else if schema["type"] == "integer" {
        number(schema, random).to_string().into_bytes()
    } else {
        assert_eq!(schema["type"], "string", "this test does not know how to make a {schema}");
        choose(random, &[&b"text"[..], b"", b"a b&c"]).to_vec()
    }
}

/// Its bounds, and anything between them.
fn number(schema: &Value, random: &mut Random) -> i128 {
    let min = whole(&schema["minimum"]).unwrap_or(0);
    let max = whole(&schema["maximum"]).unwrap_or(min + 1_000_000);
    match random.below(4) {
        0 => min,
        1 => max,
        2 => min + i128::from(random.below(10).min((max - min) as u64)),
        _ => min + i128::from(random.next()) % (max - min + 1),
    }
}

/// What a parameter with this schema must not be: everything that can be wrong with it, once.
pub(crate) fn refused(document: &Document, schema: &Value) -> Vec<Vec<u8>> {
    let mut found: Vec<Vec<u8>> =
        texts(&schema["x-refused"]).into_iter().map(|text| text.as_bytes().to_vec()).collect();
    if schema.get("x-bytes").is_some() {
        let longest = whole(&schema["maxLength"]).expect("the longest") as usize;
        found.extend([Vec::new(), vec![b'k'; longest + 1]]);
    } else if schema["type"] == "integer" {
        let beyond =
            [("minimum", -1), ("maximum", 1)].map(|(name, step)| whole(&schema[name]).map(|it| it + step));
        found.extend(beyond.into_iter().flatten().map(|number| number.to_string().into_bytes()));
        let is_number = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty();
        let no_number = |text: &&str| !is_number(text) && *text != "-1";
        found.extend(WRONG_TEXTS.into_iter().filter(no_number).map(Vec::from));
    } else if ["pattern", "enum", "const"].iter().any(|keyword| schema.get(keyword).is_some()) {
        let is_wrong = |text: &&str| check(document, schema, &Value::from(*text)).is_err();
        found.extend(WRONG_TEXTS.into_iter().filter(is_wrong).map(Vec::from));
    }
    found
}

/// A value of JSON that a schema permits.
pub(crate) fn json(document: &Document, schema: &Value, random: &mut Random) -> Value {
    let schema = document.resolve(schema);
    let listed: Vec<&Value> = schema
        .get("const")
        .into_iter()
        .chain(elements(&schema["examples"]))
        .chain(elements(&schema["enum"]))
        .collect();
    if !listed.is_empty() {
        return choose(random, &listed).clone();
    }
    let variants: Vec<&Value> = elements(&schema["oneOf"]).chain(elements(&schema["anyOf"])).collect();
    let variant = (!variants.is_empty()).then(|| document.resolve(choose(random, &variants)));
    if let Some(variant) = variant.filter(|_| schema.get("properties").is_none()) {
        return json(document, variant, random);
    }
    let name = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match name.unwrap_or_else(|| panic!("this test does not know how to make a {schema}")) {
        "object" => {
            let others = variant.into_iter().flat_map(|variant| texts(&variant["required"]));
            let required: Vec<&str> = texts(&schema["required"]).into_iter().chain(others).collect();
            object(document, (schema, &required[..]), random)
        }
        "array" => (0..random.below(4)).map(|_| json(document, &schema["items"], random)).collect(),
        "boolean" => Value::Bool(random.below(2) == 0),
        "null" => Value::Null,
        "integer" => match number(schema, random) {
            number if number < 0 => Value::from(number as i64),
            number => Value::from(number as u64),
        },
        _ => Value::from(String::from_utf8_lossy(&permitted(schema, random)).into_owned()),
    }
}

/// With what is required, and at times something else, as far as the schema permits it.
fn object(document: &Document, (schema, required): (&Value, &[&str]), random: &mut Random) -> Value {
    let mut object = Map::new();
    for name in required {
        let member = json(document, &schema["properties"][*name], random);
        object.insert((*name).to_owned(), member);
    }
    for (name, rule) in schema.get("properties").map(members).into_iter().flatten() {
        if random.below(4) == 0 && !object.contains_key(name) {
            object.insert(name.clone(), json(document, rule, random));
            if check(document, schema, &Value::Object(object.clone())).is_err() {
                object.remove(name);
            }
        }
    }
    Value::Object(object)
}

fn as_text(value: &Value) -> Vec<u8> {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned).into_bytes()
}

#[test]
fn what_is_made_is_as_the_schema_says_and_what_is_refused_is_not() {
    let document = Document::read();
    let mut random = Random::new(1);
    for operation in document.operations() {
        for parameter in &operation.parameters {
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).ok();
            let value = |bytes: Vec<u8>| match (text(bytes), parameter.schema["type"] == "integer") {
                // What is written in another way is no number here, whatever it is elsewhere.
                (Some(text), true) => {
                    let number = serde_json::from_str::<Value>(&text).ok();
                    number.filter(|number| number.to_string().as_str() == text)
                }
                (text, _) => text.map(Value::from),
            };
            let name = format!("{} of {}", parameter.name, operation.id());
            for _ in 0..50 {
                if let Some(value) = value(permitted(parameter.schema, &mut random)) {
                    check(&document, parameter.schema, &value)
                        .unwrap_or_else(|error| panic!("{name}: {error}"));
                }
            }
            let is_listed = |bytes: &[u8]| {
                texts(&parameter.schema["x-refused"]).iter().any(|text| text.as_bytes() == bytes)
            };
            for bytes in refused(&document, parameter.schema).into_iter().filter(|bytes| !is_listed(bytes)) {
                if let Some(value) = value(bytes) {
                    assert!(
                        check(&document, parameter.schema, &value).is_err(),
                        "{name}: {value} is permitted"
                    );
                }
            }
        }
    }
    let record = &document.root()["components"]["schemas"]["Record"];
    for _ in 0..200 {
        let made = json(&document, record, &mut random);
        check(&document, record, &made).unwrap_or_else(|error| panic!("{made}: {error}"));
    }
}
