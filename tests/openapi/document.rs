use std::collections::BTreeSet;

use serde_json::{Map, Number, Value};
use yaml_rust2::{Yaml, YamlLoader};

const TEXT: &str = include_str!("../../docs/http-api.yaml");
/// As the description calls them.
const METHODS: [&str; 8] = ["get", "head", "put", "post", "delete", "patch", "options", "trace"];

/// The description of the HTTP API.
pub(crate) struct Document(Value);

/// What a method of a path does.
pub(crate) struct Operation<'d> {
    pub(crate) document: &'d Document,
    /// In capital letters.
    pub(crate) method: String,
    pub(crate) path: &'d str,
    pub(crate) parameters: Vec<Parameter<'d>>,
    described: &'d Value,
}

/// Something that a request may say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameter<'d> {
    pub(crate) name: &'d str,
    pub(crate) place: Place,
    pub(crate) is_required: bool,
    pub(crate) schema: &'d Value,
    described: &'d Value,
}

/// Where it says that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Query,
    Header,
    Path,
}

impl Document {
    pub(crate) fn read() -> Document {
        let documents = YamlLoader::load_from_str(TEXT).expect("YAML in which no key is there twice");
        let [document] = &documents[..] else { panic!("{} documents, expected one", documents.len()) };
        Document(json_of(document))
    }

    pub(crate) fn root(&self) -> &Value {
        &self.0
    }

    /// What a reference leads to; any other value is itself.
    pub(crate) fn resolve<'d>(&'d self, mut value: &'d Value) -> &'d Value {
        while let Some(reference) = value.get("$ref") {
            assert_eq!(members(value).len(), 1, "something stands beside a reference: {value}");
            let place =
                reference.as_str().and_then(|text| text.strip_prefix('#')).expect("a place in the document");
            value = self.0.pointer(place).unwrap_or_else(|| panic!("there is no {reference}"));
        }
        value
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = (&str, &Value)> {
        members(&self.0["paths"]).iter().map(|(path, item)| (path.as_str(), item))
    }

    /// The methods of a path, in capital letters.
    pub(crate) fn methods(item: &Value) -> BTreeSet<String> {
        METHODS.into_iter().filter(|method| item.get(method).is_some()).map(str::to_uppercase).collect()
    }

    pub(crate) fn operations(&self) -> Vec<Operation<'_>> {
        let mut operations = Vec::new();
        for (path, item) in self.paths() {
            for (name, described) in members(item) {
                if METHODS.contains(&name.as_str()) {
                    operations.push(self.operation((path, item), name, described));
                } else {
                    assert!(
                        ["parameters", "x-other-methods"].contains(&name.as_str()),
                        "{path} has a {name}"
                    );
                }
            }
        }
        operations
    }

    fn operation<'d>(
        &'d self,
        (path, item): (&'d str, &'d Value),
        method: &str,
        described: &'d Value,
    ) -> Operation<'d> {
        let parameters = [item, described].into_iter().flat_map(|of| elements(&of["parameters"]));
        let parameters = parameters.map(|described| Parameter::of(self, self.resolve(described))).collect();
        Operation { document: self, method: method.to_uppercase(), path, parameters, described }
    }
}

impl<'d> Operation<'d> {
    pub(crate) fn id(&self) -> &'d str {
        self.described["operationId"]
            .as_str()
            .unwrap_or_else(|| panic!("{} {} has no id", self.method, self.path))
    }

    /// The statuses that it may be answered with.
    pub(crate) fn statuses(&self) -> BTreeSet<&'d str> {
        members(&self.described["responses"]).keys().map(String::as_str).collect()
    }

    /// How it is answered with a status.
    pub(crate) fn answer(&self, status: u16) -> Option<&'d Value> {
        let answer = self.described["responses"].get(status.to_string())?;
        Some(self.document.resolve(answer))
    }

    /// By what clients may be let in: the names of the schemes.
    pub(crate) fn security(&self) -> BTreeSet<&'d str> {
        let requirements = self.described["security"].as_array();
        let requirements = requirements.unwrap_or_else(|| panic!("{} does not say what it needs", self.id()));
        requirements.iter().flat_map(|requirement| members(requirement).keys().map(String::as_str)).collect()
    }

    /// The media types of its body and their descriptions; none if it takes no body.
    pub(crate) fn bodies(&self) -> Vec<(&'d str, &'d Value)> {
        let Some(body) = self.described.get("requestBody") else { return Vec::new() };
        let body = self.document.resolve(body);
        members(&body["content"]).iter().map(|(media_type, body)| (media_type.as_str(), body)).collect()
    }

    pub(crate) fn parameter(&self, name: &str) -> Parameter<'d> {
        let found = self.parameters.iter().find(|parameter| parameter.name == name);
        *found.unwrap_or_else(|| panic!("{} has no parameter {name}", self.id()))
    }

    pub(crate) fn takes_a_query(&self) -> bool {
        self.parameters.iter().any(|parameter| parameter.place == Place::Query)
    }

    /// Whether a node on its own refuses it.
    pub(crate) fn is_cluster_only(&self) -> bool {
        self.described.get("x-cluster-only") == Some(&Value::Bool(true))
    }

    /// Whether an answer may go on until the client leaves.
    pub(crate) fn is_endless(&self) -> bool {
        self.described.get("x-endless") == Some(&Value::Bool(true))
    }

    /// Of which one has to be given.
    pub(crate) fn needs_one_of(&self) -> Vec<&'d str> {
        texts(&self.described["x-needs-one-of"])
    }

    /// Which must not be given together.
    pub(crate) fn excludes(&self) -> Vec<[&'d str; 2]> {
        let pairs = elements(&self.described["x-excludes"]).map(texts);
        pairs.map(|pair| pair.try_into().expect("a pair of parameters")).collect()
    }

    /// What it refuses, though it does not list it.
    pub(crate) fn refused_parameters(&self) -> Vec<&'d str> {
        texts(&self.described["x-refused-parameters"])
    }
}

impl<'d> Parameter<'d> {
    fn of(document: &'d Document, described: &'d Value) -> Parameter<'d> {
        let place = match described["in"].as_str() {
            Some("query") => Place::Query,
            Some("header") => Place::Header,
            Some("path") => Place::Path,
            place => panic!("a parameter in {place:?}: {described}"),
        };
        Parameter {
            name: described["name"].as_str().expect("a name"),
            place,
            is_required: described["required"].as_bool().expect("whether it is required"),
            schema: document.resolve(&described["schema"]),
            described,
        }
    }

    /// Whether it depends on more than the parameters if a request with this one is served.
    pub(crate) fn depends_on_more(&self) -> bool {
        self.described.get("x-depends-on-more") == Some(&Value::Bool(true))
    }

    /// The other parameter that it needs, and that one's values, if it needs one.
    pub(crate) fn only_with(&self) -> Option<(&'d str, Vec<&'d str>)> {
        let (name, values) = members(self.described.get("x-only-with")?).iter().next().expect("a parameter");
        Some((name.as_str(), texts(values)))
    }
}

/// The members of an object.
pub(crate) fn members(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap_or_else(|| panic!("{value} is no object"))
}

/// The elements of an array, if there is one.
pub(crate) fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    assert!(value.is_array() || value.is_null(), "{value} is no array");
    value.as_array().into_iter().flatten()
}

/// Its elements, which are text.
pub(crate) fn texts(value: &Value) -> Vec<&str> {
    elements(value).map(|element| element.as_str().expect("text")).collect()
}

fn json_of(yaml: &Yaml) -> Value {
    match yaml {
        Yaml::Null => Value::Null,
        Yaml::Boolean(boolean) => Value::Bool(*boolean),
        Yaml::Integer(number) => Value::from(*number),
        // So is a whole number beyond 63 bits.
        Yaml::Real(text) => match text.parse::<u64>() {
            Ok(number) => Value::from(number),
            Err(_) => Value::Number(yaml.as_f64().and_then(Number::from_f64).expect("a number")),
        },
        Yaml::String(text) => Value::String(text.clone()),
        Yaml::Array(elements) => elements.iter().map(json_of).collect(),
        Yaml::Hash(members) => {
            let member =
                |(name, value): (&Yaml, &Yaml)| (name.as_str().expect("a name").to_owned(), json_of(value));
            Value::Object(members.iter().map(member).collect())
        }
        Yaml::Alias(_) | Yaml::BadValue => panic!("no part of JSON: {yaml:?}"),
    }
}
