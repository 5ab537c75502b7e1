//! Variables that look like settings and are none.

use super::sources::variables;

/// What begins the name of every variable of this program.
const PREFIX: &str = "LADOGA_";
/// Variables that are no settings of a node: where its settings are, and what clients read.
const OTHERS: [&str; 8] = [
    "LADOGA_CONFIG",
    "LADOGA_URL",
    "LADOGA_TOKEN",
    "LADOGA_FROM_TOKEN",
    "LADOGA_TO_TOKEN",
    "LADOGA_CACERT",
    "LADOGA_CLIENT_CERT",
    "LADOGA_CLIENT_KEY",
];

/// A line for each variable of this process that nothing reads.
pub(crate) fn unknown_variables() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    objections(names)
}

fn objections(names: impl Iterator<Item = String>) -> Vec<String> {
    let known: Vec<String> = variables().chain(OTHERS.map(str::to_owned)).collect();
    let mut unknown: Vec<String> = names
        .filter(|name| name.starts_with(PREFIX) && !known.contains(name) && !is_of_kubernetes(name))
        .collect();
    unknown.sort();
    let objection = |name: String| {
        let closest = known.iter().min_by_key(|known| distance(known, &name));
        let closest = closest.map_or("", String::as_str);
        format!(
            "the variable {} is unknown and does not count; the closest known one is {closest}",
            name.escape_debug()
        )
    };
    unknown.into_iter().map(objection).collect()
}

/// Kubernetes tells every container where its services are, also one that is named `ladoga` or `ladoga-...`.
fn is_of_kubernetes(name: &str) -> bool {
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT")
        || ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| name.contains(protocol) && name.contains("_PORT_"))
}

/// How many letters have to be changed, added or left out to make one name of the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, other_letter) in other.bytes().enumerate() {
            let changed = diagonal + usize::from(letter != other_letter);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_far_from_each_other_as_letters_differ() {
        for (one, other, expected) in
            [("", "", 0), ("abc", "", 3), ("", "ab", 2), ("memory", "memroy", 2), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(one, other), expected, "{one} {other}");
            assert_eq!(distance(other, one), expected, "{other} {one}");
        }
    }

    #[test]
    fn only_what_nothing_reads_is_told() {
        let of = |names: &[&str]| objections(names.iter().map(|name| (*name).to_owned()));
        let known =
            ["PATH", "LADOGA_MEMORY", "LADOGA_LOG_FORMAT", "LADOGA_CONFIG", "LADOGA_TO_TOKEN", "ladoga_x"];
        assert_eq!(of(&known), [""; 0]);
        let kubernetes =
            ["LADOGA_SERVICE_HOST", "LADOGA_SERVICE_PORT_HTTP", "LADOGA_PORT", "LADOGA_PORT_8080_TCP_ADDR"];
        assert_eq!(of(&kubernetes), [""; 0]);
        let told = of(&["LADOGA_MEMROY", "LADOGA_FSINC"]);
        assert_eq!(told.len(), 2);
        assert!(told[0].contains("LADOGA_FSINC") && told[0].ends_with("LADOGA_FSYNC"), "{told:?}");
        assert!(told[1].contains("LADOGA_MEMROY") && told[1].ends_with("LADOGA_MEMORY"), "{told:?}");
    }
}
