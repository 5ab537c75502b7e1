//! The tables, as the statements need them.

/// Table, name, kind and type.
pub(crate) type Column = (String, String, String, String);

/// Of each column that statements name: its table, its name, what it is in the key, and its type.
const COLUMNS: [(&str, &str, &str, &str); 15] = [
    ("entities", "bucket", "partition_key", "int"),
    ("entities", "key", "clustering", "blob"),
    ("entities", "etag", "regular", "blob"),
    ("entities", "value", "regular", "blob"),
    ("meta", "id", "partition_key", "text"),
    ("meta", "layout", "regular", "int"),
    ("meta", "buckets", "regular", "int"),
    ("meta", "writes", "regular", "text"),
    ("pieces", "key", "partition_key", "blob"),
    ("pieces", "upload", "partition_key", "blob"),
    ("pieces", "piece", "clustering", "int"),
    ("pieces", "bytes", "regular", "blob"),
    ("uploads", "bucket", "partition_key", "int"),
    ("uploads", "key", "clustering", "blob"),
    ("uploads", "upload", "clustering", "blob"),
];

/// A column that is missing or another one: its table, and what is wrong. More of them do not matter: no statement names them.
pub(crate) fn wrong_column(found: &[Column]) -> Option<(&'static str, String)> {
    COLUMNS.into_iter().find_map(|(table, name, kind, of_type)| {
        let column = found.iter().find(|column| column.0 == table && column.1 == name);
        let is = column.map_or("missing".to_owned(), |column| format!("{} {}", column.2, column.3));
        let expected = format!("{kind} {of_type}");
        (is != expected).then(|| (table, format!("the column {name} is {is}, expected {expected}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_all_columns_that_statements_name() {
        let all: Vec<Column> = COLUMNS
            .map(|(table, name, kind, of)| {
                (table.to_owned(), name.to_owned(), kind.to_owned(), of.to_owned())
            })
            .into();
        assert_eq!(wrong_column(&all), None);
        let one_more = ("entities".to_owned(), "note".to_owned(), "regular".to_owned(), "text".to_owned());
        assert_eq!(wrong_column(&[&all[..], &[one_more]].concat()), None);
        let reason = "the column bucket is missing, expected partition_key int".to_owned();
        assert_eq!(wrong_column(&all[1..]), Some(("entities", reason)));
        let mut other = all;
        other[3].3 = "text".to_owned();
        let reason = "the column value is regular text, expected regular blob".to_owned();
        assert_eq!(wrong_column(&other), Some(("entities", reason)));
    }
}
