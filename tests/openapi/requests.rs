use std::fmt::Write;

use crate::document::{Operation, Parameter, Place, texts};
use crate::support::{Random, percent_encoded, value};
use crate::values::{choose, json, permitted, refused};

/// One optional parameter in so many is given.
const GIVEN_ONE_IN: u64 = 3;
/// Lines of a body of lines.
const LINES_MAX: u64 = 5;

/// How many nodes there are: not all values that the description permits are valid with a few.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nodes(pub(crate) u32);

/// A request, and what has to become of it.
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) expected: Expected,
    /// What is special about it.
    pub(crate) what: String,
}

/// What becomes of it. In any case, the answer has to be one that is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// It is served.
    Served,
    /// `400`
    Refused,
    /// Either.
    Answered,
}

/// A parameter with a value.
type Given<'d> = (Parameter<'d>, Vec<u8>);

impl Nodes {
    /// What a parameter has to be if the description cannot know it, or if it would take too long otherwise.
    fn value(self, name: &str) -> Option<String> {
        let Nodes(nodes) = self;
        let majority = nodes / 2 + 1;
        match name {
            "replicas" => Some(format!("{majority}/{nodes}")),
            "ack" => Some(majority.to_string()),
            "from" => Some(nodes.to_string()),
            "seconds" => Some("1".to_owned()),
            _ => None,
        }
    }

    fn permitted(self, parameter: Parameter<'_>, random: &mut Random) -> Vec<u8> {
        let own = self.value(parameter.name).map(String::into_bytes);
        own.unwrap_or_else(|| permitted(parameter.schema, random))
    }
}

/// Valid requests, so many with parameters at random, and everything that can be wrong with one, once.
pub(crate) fn requests(
    operation: &Operation<'_>,
    nodes: Nodes,
    valid: usize,
    random: &mut Random,
) -> Vec<Asked> {
    let mut asked: Vec<Asked> = (0..valid)
        .map(|_| {
            let given = at_random(operation, nodes, random);
            Asked::of(operation, given, (Expected::Served, "valid".to_owned()), random)
        })
        .collect();
    for parameter in &operation.parameters {
        asked.extend(about(operation, *parameter, nodes, random));
    }
    asked.extend(about_several(operation, nodes, random));
    asked.extend(with_a_query(operation, nodes, random));
    if !operation.bodies().is_empty() {
        let given = least(operation, None, nodes, random);
        let without = Asked::of(operation, given, (Expected::Answered, "no body".to_owned()), random);
        asked.push(Asked { body: None, ..without });
    }
    asked
}

/// Requests about one parameter: alone, absent, twice, and wrong in every way.
fn about(
    operation: &Operation<'_>,
    parameter: Parameter<'_>,
    nodes: Nodes,
    random: &mut Random,
) -> Vec<Asked> {
    let name = parameter.name;
    let least = |random: &mut Random| least(operation, Some(parameter), nodes, random);
    let others = |random: &mut Random| {
        let mut given = least(random);
        given.retain(|(other, _)| other.name != name);
        given
    };
    let mut asked = Vec::new();
    let mut ask = |given: Vec<Given<'_>>, expected: Expected, what: String, random: &mut Random| {
        asked.push(Asked::of(operation, given, (expected, what), random));
    };
    ask(least(random), Expected::Served, format!("with {name}"), random);
    if parameter.place == Place::Query {
        let (mut twice, again) = (least(random), (parameter, nodes.permitted(parameter, random)));
        twice.push(again);
        ask(twice, Expected::Refused, format!("{name} twice"), random);
        if parameter.is_required {
            ask(others(random), Expected::Refused, format!("without {name}"), random);
        }
    }
    if parameter.place != Place::Path {
        for wrong in refused(operation.document, parameter.schema) {
            let what = format!("{name} is {:?}", wrong.escape_ascii().to_string());
            let mut given = others(random);
            given.push((parameter, wrong));
            ask(given, Expected::Refused, what, random);
        }
    }
    if let Some((with, values)) = parameter.only_with() {
        let place = operation.parameter(with);
        for other in texts(&place.schema["enum"]).into_iter().filter(|other| !values.contains(other)) {
            let mut given = least(random);
            given.retain(|(other, _)| other.name != with);
            given.push((place, other.as_bytes().to_vec()));
            ask(given, Expected::Refused, format!("{name}, and {with} is {other}"), random);
        }
    }
    asked
}

/// Requests with parameters that do not go together, or with none of those of which one is needed.
fn about_several(operation: &Operation<'_>, nodes: Nodes, random: &mut Random) -> Vec<Asked> {
    let mut asked = Vec::new();
    for pair in operation.excludes() {
        let mut given = least(operation, Some(operation.parameter(pair[0])), nodes, random);
        given.retain(|(other, _)| other.name != pair[1]);
        let other = operation.parameter(pair[1]);
        given.push((other, nodes.permitted(other, random)));
        let what = format!("{} and {}", pair[0], pair[1]);
        asked.push(Asked::of(operation, given, (Expected::Refused, what), random));
    }
    let needed = operation.needs_one_of();
    if !needed.is_empty() {
        let mut given = least(operation, None, nodes, random);
        given.retain(|(other, _)| !needed.contains(&other.name));
        let what = format!("none of {}", needed.join(", "));
        asked.push(Asked::of(operation, given, (Expected::Refused, what), random));
    }
    asked
}

/// Requests with something in the query that is not described, or that is described as refused.
fn with_a_query(operation: &Operation<'_>, nodes: Nodes, random: &mut Random) -> Vec<Asked> {
    let of_broken = if operation.takes_a_query() { Expected::Refused } else { Expected::Served };
    let refused =
        operation.refused_parameters().into_iter().map(|name| (format!("{name}=1m"), Expected::Refused));
    let others = [
        ("x-unknown=1", Expected::Served),
        ("x-unknown=1&x-unknown=2", Expected::Served),
        ("x=%zz", of_broken),
    ];
    let others = others.into_iter().map(|(query, expected)| (query.to_owned(), expected));
    let mut asked = Vec::new();
    for (query, expected) in refused.chain(others) {
        let given = least(operation, None, nodes, random);
        let mut request = Asked::of(operation, given, (expected, query.clone()), random);
        let separator = if request.target.contains('?') { '&' } else { '?' };
        write!(request.target, "{separator}{query}").expect("a string takes text");
        asked.push(request);
    }
    asked
}

/// As few parameters as a valid request has, and this one.
fn least<'d>(
    operation: &Operation<'d>,
    with: Option<Parameter<'d>>,
    nodes: Nodes,
    random: &mut Random,
) -> Vec<Given<'d>> {
    let needed = operation.needs_one_of();
    let is_with = |name: &str| with.is_some_and(|with| with.name == name);
    let has_needed = needed.is_empty() || needed.iter().any(|name| is_with(name));
    let needed = (!has_needed).then(|| choose(random, &needed));
    let is_given = |parameter: &Parameter<'_>| {
        let name = parameter.name;
        parameter.is_required || is_with(name) || needed == Some(name) || name == "seconds"
    };
    let parameters = operation.parameters.iter().copied().filter(is_given);
    let mut given: Vec<Given<'d>> =
        parameters.map(|parameter| (parameter, nodes.permitted(parameter, random))).collect();
    // What it is valid with.
    if let Some((name, values)) = with.and_then(|with| with.only_with()) {
        given.retain(|(other, _)| other.name != name);
        given.push((operation.parameter(name), choose(random, &values).as_bytes().to_vec()));
    }
    given
}

/// A valid request with parameters at random.
fn at_random<'d>(operation: &Operation<'d>, nodes: Nodes, random: &mut Random) -> Vec<Given<'d>> {
    let mut given = least(operation, None, nodes, random);
    for parameter in &operation.parameters {
        let name = parameter.name;
        let has = |name: &str| given.iter().any(|(other, _)| other.name == name);
        let is_excluded = operation
            .excludes()
            .iter()
            .any(|pair| pair.contains(&name) && pair.iter().any(|other| *other != name && has(other)));
        let is_valid_with = parameter.only_with().is_none_or(|(other, values)| {
            given
                .iter()
                .any(|(it, value)| it.name == other && values.iter().any(|one| one.as_bytes() == value))
        });
        if random.below(GIVEN_ONE_IN) == 0 && !has(name) && !is_excluded && is_valid_with {
            given.push((*parameter, nodes.permitted(*parameter, random)));
        }
    }
    given
}

impl Asked {
    fn of(
        operation: &Operation<'_>,
        given: Vec<Given<'_>>,
        (expected, what): (Expected, String),
        random: &mut Random,
    ) -> Asked {
        let (mut path, mut query, mut headers) = (operation.path.to_owned(), Vec::new(), Vec::new());
        let is_uncertain = given.iter().any(|(parameter, _)| parameter.depends_on_more());
        let expected =
            if is_uncertain && expected == Expected::Served { Expected::Answered } else { expected };
        for (parameter, value) in given {
            match parameter.place {
                Place::Path => {
                    path = path.replace(&format!("{{{}}}", parameter.name), &percent_encoded(&value));
                }
                Place::Query => query.push(format!("{}={}", parameter.name, percent_encoded(&value))),
                Place::Header => headers.push((parameter.name.to_owned(), value)),
            }
        }
        let separator = if query.is_empty() { "" } else { "?" };
        let body = body(operation, random);
        headers.extend(
            body.iter().map(|(media_type, _)| ("Content-Type".to_owned(), media_type.as_bytes().to_vec())),
        );
        Asked {
            method: operation.method.clone(),
            target: format!("{path}{separator}{}", query.join("&")),
            headers,
            body: body.map(|(_, body)| body),
            expected,
            what,
        }
    }

    /// The bytes that are sent.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\nHost: ladoga\r\n", self.method, self.target).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        if let Some(body) = &self.body {
            bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }
}

/// A body as it is described, with its media type; none if there is none.
fn body(operation: &Operation<'_>, random: &mut Random) -> Option<(String, Vec<u8>)> {
    let bodies = operation.bodies();
    if bodies.is_empty() {
        return None;
    }
    let (media_type, described) = choose(random, &bodies);
    let bytes = match media_type {
        "application/x-ndjson" => {
            let line =
                |random: &mut Random| format!("{}\n", json(operation.document, &described["schema"], random));
            (0..random.below(LINES_MAX + 1)).map(|_| line(random)).collect::<String>().into_bytes()
        }
        "*/*" | "application/octet-stream" => match random.below(6) {
            0 => Vec::new(),
            1 => b"41".to_vec(),
            2 => value(random.next(), 10_000),
            // Too large for memory.
            3 => value(random.next(), 300_000),
            _ => b"value".to_vec(),
        },
        other => panic!("this test does not know how to make a body of {other}"),
    };
    let media_type = if media_type == "*/*" { "application/octet-stream" } else { media_type };
    Some((media_type.to_owned(), bytes))
}
