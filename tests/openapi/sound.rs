use std::collections::BTreeSet;

use serde_json::Value;

use crate::document::{Document, elements, members, texts};
use crate::schema::check;

/// Every request may be malformed, too slow or too large.
const ALWAYS: [&str; 3] = ["400", "408", "431"];
/// On a node with tokens, each that needs one may be without, or with one that is not enough.
const WITH_TOKENS: [&str; 3] = ["401", "403", "429"];

#[test]
fn every_operation_has_a_name_of_its_own_and_the_answers_that_all_have() {
    let document = Document::read();
    let mut ids = BTreeSet::new();
    for operation in document.operations() {
        let id = operation.id();
        assert!(ids.insert(id), "{id} is the name of two operations");
        let statuses = operation.statuses();
        let needs_token = operation.security().contains(&"Token");
        for status in ALWAYS.iter().chain(needs_token.then_some(&WITH_TOKENS).into_iter().flatten()) {
            assert!(statuses.contains(status), "{id} does not say what {status} means");
        }
        for status in statuses {
            let status: u16 = status.parse().unwrap_or_else(|_| panic!("{id}: {status} is no status"));
            let answer = operation.answer(status).expect("it is there");
            assert!(answer["description"].is_string(), "{id}: {status} has no description");
        }
        // Those that its rules name are there.
        let pairs = operation.excludes().into_iter().flatten();
        let named = pairs.chain(operation.needs_one_of());
        for name in named.chain(operation.parameters.iter().filter_map(|it| Some(it.only_with()?.0))) {
            assert_eq!(operation.parameter(name).name, name);
        }
        for name in operation.refused_parameters() {
            assert!(
                operation.parameters.iter().all(|it| it.name != name),
                "{id} lists {name} and refuses it"
            );
        }
        let names: BTreeSet<&str> = operation.parameters.iter().map(|parameter| parameter.name).collect();
        assert_eq!(names.len(), operation.parameters.len(), "{id} lists a parameter twice");
    }
    assert!(ids.len() >= 16, "{ids:?}");
}

/// Everything below a value, itself included.
fn all<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    found.push(value);
    match value {
        Value::Object(members) => members.values().for_each(|member| all(member, found)),
        Value::Array(elements) => elements.iter().for_each(|element| all(element, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_component_is_used() {
    let document = Document::read();
    let mut values = Vec::new();
    all(document.root(), &mut values);
    let mut used = BTreeSet::new();
    for value in values {
        if let Some(reference) = value.get("$ref") {
            assert!(document.resolve(value).is_object(), "{reference}");
            used.insert(reference.as_str().expect("text").to_owned());
        }
    }
    // Those are named without a reference.
    for operation in document.operations() {
        for scheme in operation.security() {
            used.insert(format!("#/components/securitySchemes/{scheme}"));
        }
    }
    for (kind, components) in members(&document.root()["components"]) {
        for name in members(components).keys() {
            let reference = format!("#/components/{kind}/{name}");
            assert!(used.contains(&reference), "nothing uses {reference}");
        }
    }
}

#[test]
fn every_example_is_one() {
    let document = Document::read();
    let mut values = Vec::new();
    all(document.root(), &mut values);
    let mut checked = 0;
    for schema in values.iter().filter(|value| value.get("type").is_some() || value.get("pattern").is_some())
    {
        for example in elements(&schema["examples"]).chain(schema.get("default")) {
            check(&document, schema, example).unwrap_or_else(|error| panic!("{schema}: {error}"));
            checked += 1;
        }
        for refused in texts(&schema["x-refused"]) {
            assert!(
                !elements(&schema["examples"]).any(|example| example == refused),
                "{refused} of {schema}"
            );
        }
    }
    // Those beside a schema; lines of JSON are one each.
    for value in values.iter().filter(|value| value.get("schema").is_some()) {
        let Some(example) = value.get("example") else { continue };
        let lines = example.as_str().filter(|text| text.starts_with('{'));
        let examples: Vec<Value> = match lines {
            Some(lines) => lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect(),
            None => vec![example.clone()],
        };
        for example in examples {
            check(&document, &value["schema"], &example).unwrap_or_else(|error| panic!("{value}: {error}"));
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked} examples");
}
