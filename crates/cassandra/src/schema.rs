//! The keyspaces and tables: made if they are missing and that is permitted, and checked before they are used.

use std::collections::BTreeMap;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::errors::{DbError, ExecutionError, PrepareError, RequestAttemptError};
use scylla::response::query_result::QueryRowsResult;
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use scylla::value::CqlValue;
use tokio::time::Instant;

use crate::place::Place;
use crate::settings::Writes;
use crate::start_error::StartError;
use crate::tables::{Column, wrong_column};

/// What the tables are like. Another layout gets another number.
const LAYOUT: i32 = 1;
/// Into how many partitions the keys of a new keyspace are spread.
const BUCKETS: i32 = 256;
/// A range reads from all of them at once.
const BUCKETS_MAX: i32 = 4_096;
/// For so long a door tries to make a keyspace that others make at the same time, with a pause in between. Two nodes may each make a table
/// of one name: until all agree on one of them, a row is refused, or gone with the other one.
const MAKING_TIME: Duration = Duration::from_mins(1);
const MAKING_PAUSE: Duration = Duration::from_millis(500);

/// A keyspace: keys with this many copies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'p> {
    pub(crate) from: u32,
    pub(crate) place: &'p Place,
    pub(crate) writes: Writes,
}

impl Wanted<'_> {
    pub(crate) fn name(&self) -> String {
        self.place.keyspace_of(self.from)
    }

    fn replication(&self) -> String {
        // A quotation mark within a name is doubled.
        let datacenter = self.place.datacenter.replace('\'', "''");
        format!("{{'class': 'NetworkTopologyStrategy', '{datacenter}': {}}}", self.from)
    }

    /// What makes all of it, statement by statement.
    fn cql(&self) -> Vec<String> {
        let (keyspace, replication, writes) = (self.name(), self.replication(), self.writes.word());
        vec![
            format!("CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {replication}"),
            format!(
                "CREATE TABLE IF NOT EXISTS {keyspace}.entities (bucket int, key blob, etag blob, value blob, \
                 PRIMARY KEY (bucket, key))"
            ),
            format!(
                "CREATE TABLE IF NOT EXISTS {keyspace}.pieces (key blob, upload blob, piece int, bytes blob, \
                 PRIMARY KEY ((key, upload), piece))"
            ),
            format!(
                "CREATE TABLE IF NOT EXISTS {keyspace}.uploads (bucket int, key blob, upload blob, \
                 PRIMARY KEY (bucket, key, upload))"
            ),
            format!(
                "CREATE TABLE IF NOT EXISTS {keyspace}.meta (id text PRIMARY KEY, layout int, buckets int, writes text)"
            ),
            format!(
                "INSERT INTO {keyspace}.meta (id, layout, buckets, writes) \
                 VALUES ('ladoga', {LAYOUT}, {BUCKETS}, '{writes}') IF NOT EXISTS"
            ),
        ]
    }

    fn no_keyspace(&self, reason: String) -> StartError {
        StartError::NoKeyspace { reason, cql: self.cql().join(";\n") + ";" }
    }

    pub(crate) fn no_meta(&self) -> StartError {
        self.not_now("its table meta is empty")
    }

    fn not_now(&self, reason: impl std::fmt::Display) -> StartError {
        StartError::NotNow { keyspace: self.name(), reason: reason.to_string() }
    }
}

/// What the table `meta` says of a keyspace that may be used.
pub(crate) struct Meta {
    /// The id of the table: who drops it and makes it anew makes one with another id.
    pub(crate) table: CqlValue,
    pub(crate) buckets: i32,
}

/// Makes the keyspace if it is missing.
pub(crate) async fn prepare(session: &Session, wanted: Wanted<'_>) -> Result<Meta, StartError> {
    let replication = replication(session, wanted).await?;
    if replication.is_some()
        && let Some(meta) = find(session, wanted).await?
    {
        return Ok(meta);
    }
    // Whoever may make tables in a keyspace need not be allowed to make keyspaces.
    let skipped = usize::from(replication.is_some());
    let give_up = Instant::now() + MAKING_TIME;
    loop {
        let unmade = match made(session, wanted, skipped).await {
            Ok(meta) => return Ok(meta),
            Err(unmade) => unmade,
        };
        if !unmade.may_pass || Instant::now() > give_up {
            return Err(unmade.into());
        }
        tokio::time::sleep(MAKING_PAUSE).await;
    }
}

/// Why a keyspace is not made, and whether it may be if it is tried again.
struct Unmade {
    error: StartError,
    may_pass: bool,
}

impl From<Unmade> for StartError {
    fn from(unmade: Unmade) -> StartError {
        unmade.error
    }
}

async fn made(session: &Session, wanted: Wanted<'_>, skipped: usize) -> Result<Meta, Unmade> {
    create(session, wanted, skipped).await?;
    meta(session, wanted).await?.ok_or_else(|| Unmade { error: wanted.no_meta(), may_pass: true })
}

/// Makes nothing. None if the keyspace, its table `meta` or the row in that is missing.
pub(crate) async fn find(session: &Session, wanted: Wanted<'_>) -> Result<Option<Meta>, StartError> {
    let Some(replication) = replication(session, wanted).await? else { return Ok(None) };
    check_replication(wanted, &replication)?;
    Ok(meta(session, wanted).await?)
}

async fn create(session: &Session, wanted: Wanted<'_>, skipped: usize) -> Result<(), Unmade> {
    for cql in wanted.cql().into_iter().skip(skipped) {
        if let Err(error) = session.query_unpaged(cql, &[]).await {
            let may_pass = may_pass(&error);
            let error = match error {
                ExecutionError::LastAttemptError(RequestAttemptError::DbError(
                    DbError::Unauthorized,
                    why,
                )) => wanted.no_keyspace(format!("the keyspace {} cannot be made: {why}", wanted.name())),
                // The row does not fit into a table of this name that was there before.
                error if is_invalid(&error) && !may_pass => other_layout(wanted, "meta", &error.to_string()),
                error => wanted.not_now(error),
            };
            return Err(Unmade { error, may_pass });
        }
    }
    Ok(())
}

/// That a keyspace that was made is still as it should be: it has its copies, and its tables have their columns. Reads only what each
/// node knows by itself. Answers the id of its table `meta`.
pub(crate) async fn check(session: &Session, wanted: Wanted<'_>) -> Result<CqlValue, StartError> {
    let replication = replication(session, wanted).await?;
    let dropped = || wanted.no_keyspace(format!("the keyspace {} is missing", wanted.name()));
    check_replication(wanted, &replication.ok_or_else(dropped)?)?;
    let cql = of_schema("SELECT table_name, column_name, kind, type FROM system_schema.columns", wanted);
    let rows = rows(session, wanted, cql).await?;
    let rows = rows.rows::<Column>().map_err(|error| wanted.not_now(error))?;
    let columns: Vec<Column> = rows.collect::<Result<_, _>>().map_err(|error| wanted.not_now(error))?;
    if let Some((table, reason)) = wrong_column(&columns) {
        return Err(other_layout(wanted, table, &reason));
    }
    meta_table(session, wanted).await?.ok_or_else(|| wanted.not_now("its table meta is missing"))
}

type Replication = BTreeMap<String, String>;

/// Asks what a node knows of the keyspace: another node if that one is slow.
fn of_schema(select: &str, wanted: Wanted<'_>) -> Statement {
    let mut statement = Statement::new(format!("{select} WHERE keyspace_name = '{}'", wanted.name()));
    statement.set_is_idempotent(true);
    statement
}

/// How the keyspace is replicated, if there is one.
async fn replication(session: &Session, wanted: Wanted<'_>) -> Result<Option<Replication>, StartError> {
    let cql = of_schema("SELECT replication FROM system_schema.keyspaces", wanted);
    let row = rows(session, wanted, cql).await?.maybe_first_row::<(Replication,)>();
    Ok(row.map_err(|error| wanted.not_now(error))?.map(|(replication,)| replication))
}

async fn rows(session: &Session, wanted: Wanted<'_>, cql: Statement) -> Result<QueryRowsResult, StartError> {
    let found = session.query_unpaged(cql, &[]).await.map_err(|error| wanted.not_now(error))?;
    found.into_rows_result().map_err(|error| wanted.not_now(error))
}

/// That it has as many copies in the datacenter as its name says, and none elsewhere: those would be asked, too.
fn check_replication(wanted: Wanted<'_>, found: &Replication) -> Result<(), StartError> {
    let copies = |of: &str| found.get(of).and_then(|copies| copies.parse::<u32>().ok());
    let class = found.get("class").map_or("", |class| class.rsplit('.').next().unwrap_or(class));
    let is_as_wanted = match class {
        "NetworkTopologyStrategy" => {
            found.len() == 2 && copies(&wanted.place.datacenter) == Some(wanted.from)
        }
        "SimpleStrategy" => copies("replication_factor") == Some(wanted.from),
        _ => false,
    };
    if is_as_wanted {
        return Ok(());
    }
    let pairs: Vec<String> = found.iter().map(|(name, value)| format!("'{name}': '{value}'")).collect();
    Err(StartError::OtherReplication {
        keyspace: wanted.name(),
        found: format!("{{{}}}", pairs.join(", ")),
        cql: format!("ALTER KEYSPACE {} WITH replication = {}", wanted.name(), wanted.replication()),
    })
}

/// The id of the table `meta`, if there is one.
async fn meta_table(session: &Session, wanted: Wanted<'_>) -> Result<Option<CqlValue>, StartError> {
    let mut cql = of_schema("SELECT id FROM system_schema.tables", wanted);
    cql.contents.push_str(" AND table_name = 'meta'");
    let row = rows(session, wanted, cql).await?.maybe_first_row::<(CqlValue,)>();
    Ok(row.map_err(|error| wanted.not_now(error))?.map(|(id,)| id))
}

/// None if the table or its row is missing.
async fn meta(session: &Session, wanted: Wanted<'_>) -> Result<Option<Meta>, Unmade> {
    // Before the row: if the table is made anew in between, its id is another one, and what is read here is read again.
    let table = meta_table(session, wanted).await.map_err(|error| Unmade { error, may_pass: true })?;
    let Some(table) = table else { return Ok(None) };
    let Some(row) = meta_row(session, wanted).await? else { return Ok(None) };
    let buckets = check_meta(wanted, &row).map_err(|error| Unmade { error, may_pass: false })?;
    Ok(Some(Meta { table, buckets }))
}

/// Layout, buckets, and how it is written.
type MetaRow = (Option<i32>, Option<i32>, Option<String>);

/// None if the table or its row is missing.
async fn meta_row(session: &Session, wanted: Wanted<'_>) -> Result<Option<MetaRow>, Unmade> {
    let cql = format!("SELECT layout, buckets, writes FROM {}.meta WHERE id = 'ladoga'", wanted.name());
    let mut statement = Statement::new(cql);
    // A node that was away may have the row as it was before it was changed.
    statement.set_consistency(Consistency::Quorum);
    let for_good = |error| Unmade { error, may_pass: false };
    match session.query_unpaged(statement, &[]).await {
        Ok(rows) => {
            let rows = rows.into_rows_result().map_err(|error| for_good(wanted.not_now(error)))?;
            let row = rows.maybe_first_row::<MetaRow>();
            row.map_err(|error| for_good(other_layout(wanted, "meta", &error.to_string())))
        }
        Err(error) if is_invalid(&error) => Ok(None),
        Err(error) => Err(Unmade { may_pass: may_pass(&error), error: wanted.not_now(error) }),
    }
}

fn is_invalid(error: &ExecutionError) -> bool {
    words_of_invalid(error).is_some()
}

/// Whether a node does not know yet what another one has made, or doors got into each other's way.
fn may_pass(error: &ExecutionError) -> bool {
    // As the versions of Cassandra, and its parts, say it.
    let missing = ["does not exist", "doesn't exist", "unconfigured table"];
    match error {
        ExecutionError::RequestTimeout(_) | ExecutionError::SchemaAgreementError(_) => true,
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(answered, _)) if is_late(answered) => {
            true
        }
        error => {
            words_of_invalid(error).is_some_and(|words| missing.iter().any(|missing| words.contains(missing)))
        }
    }
}

const fn is_late(error: &DbError) -> bool {
    matches!(
        error,
        DbError::WriteTimeout { .. }
            | DbError::WriteFailure { .. }
            | DbError::ReadTimeout { .. }
            | DbError::ReadFailure { .. }
    )
}

/// What Cassandra says of a statement that fits nothing.
fn words_of_invalid(error: &ExecutionError) -> Option<&str> {
    let words = |attempt| match attempt {
        &RequestAttemptError::DbError(DbError::Invalid, ref words) => Some(words.as_str()),
        _ => None,
    };
    match error {
        ExecutionError::LastAttemptError(attempt) => words(attempt),
        ExecutionError::PrepareError(PrepareError::AllAttemptsFailed { first_attempt, .. }) => {
            words(first_attempt)
        }
        _ => None,
    }
}

fn check_meta(wanted: Wanted<'_>, (layout, buckets, writes): &MetaRow) -> Result<i32, StartError> {
    if *layout != Some(LAYOUT) {
        let found = layout.map_or("none".to_owned(), |layout| layout.to_string());
        return Err(other_layout(wanted, "meta", &format!("layout is {found}, expected {LAYOUT}")));
    }
    let found = writes.as_deref().unwrap_or("");
    if found != wanted.writes.word() {
        let (keyspace, found) = (wanted.name(), found.to_owned());
        return Err(StartError::OtherWrites { keyspace, found, own: wanted.writes });
    }
    match *buckets {
        Some(buckets) if (1..=BUCKETS_MAX).contains(&buckets) => Ok(buckets),
        other => {
            let found = other.map_or("none".to_owned(), |buckets| buckets.to_string());
            let reason = format!("buckets is {found}, expected a number from 1 to {BUCKETS_MAX}");
            Err(other_layout(wanted, "meta", &reason))
        }
    }
}

/// A table is not what it should be.
pub(crate) fn other_layout(wanted: Wanted<'_>, table: &str, reason: &str) -> StartError {
    StartError::OtherLayout { keyspace: wanted.name(), reason: format!("{table}: {reason}") }
}

/// Whether statements that were prepared in vain are none for these tables.
pub(crate) fn not_prepared(wanted: Wanted<'_>, table: &str, error: &PrepareError) -> StartError {
    let is_other = matches!(
        error,
        PrepareError::AllAttemptsFailed {
            first_attempt: RequestAttemptError::DbError(DbError::Invalid, _),
            ..
        }
    );
    if is_other { other_layout(wanted, table, &error.to_string()) } else { wanted.not_now(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place { keyspace: "ladoga".to_owned(), datacenter: "it's".to_owned(), replicas_max: 3 }
    }

    fn wanted(place: &Place) -> Wanted<'_> {
        Wanted { from: 3, place, writes: Writes::Plain }
    }

    fn checked(pairs: &[(&str, &str)]) -> Result<(), String> {
        let found = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        check_replication(wanted(&place()), &found).map_err(|error| error.to_string())
    }

    #[test]
    fn a_keyspace_has_the_copies_of_its_name_and_no_others() {
        let network = ("class", "org.apache.cassandra.locator.NetworkTopologyStrategy");
        assert_eq!(checked(&[network, ("it's", "3")]), Ok(()));
        assert_eq!(checked(&[("class", "SimpleStrategy"), ("replication_factor", "3")]), Ok(()));
        for pairs in [
            &[network, ("it's", "2")][..],
            &[network, ("it's", "3"), ("other", "3")],
            &[network],
            &[("class", "SimpleStrategy"), ("replication_factor", "1")],
            &[("class", "LocalStrategy")],
        ] {
            let error = checked(pairs).expect_err("another number of copies");
            assert!(
                error.ends_with(
                    "ALTER KEYSPACE ladoga_rf3 WITH replication = {'class': 'NetworkTopologyStrategy', 'it''s': 3}"
                ),
                "{error}"
            );
        }
    }

    #[test]
    fn another_layout_or_another_way_to_write_is_refused() {
        let check = |layout, buckets, writes: &str| {
            let meta = (layout, buckets, Some(writes.to_owned()));
            check_meta(wanted(&place()), &meta).map_err(|error| error.to_string())
        };
        assert_eq!(check(Some(LAYOUT), Some(256), "plain"), Ok(256));
        assert_eq!(check(Some(LAYOUT), Some(16), "plain"), Ok(16));
        for (layout, buckets, writes, words) in [
            (Some(2), Some(256), "plain", "layout is 2, expected 1"),
            (None, Some(256), "plain", "layout is none"),
            (Some(LAYOUT), Some(0), "plain", "buckets is 0"),
            (Some(LAYOUT), Some(4_097), "plain", "buckets is 4097"),
            (Some(LAYOUT), None, "plain", "buckets is none"),
            (Some(LAYOUT), Some(256), "lwt", "SET writes = 'plain' WHERE id = 'ladoga'"),
        ] {
            let error = check(layout, buckets, writes).expect_err(words);
            assert!(error.contains(words), "{error}");
        }
    }
}
