use bytes::Bytes;
use ladoga_model::Version;
use scylla::client::session::Session;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

use crate::attempts::Attempts;
use crate::clock::timestamp_of;
use crate::row::encode_version;
use crate::schema::{self, Meta, Wanted, not_prepared};
use crate::settings::Writes;
use crate::start_error::StartError;

/// A statement that nodes know already, for each number of copies that may be waited for: none is made for a request.
pub(crate) struct Prepared(Vec<(Consistency, PreparedStatement)>);

const LEVELS: [Consistency; 6] = [
    Consistency::One,
    Consistency::Quorum,
    Consistency::All,
    Consistency::Two,
    Consistency::Three,
    Consistency::Serial,
];

impl Prepared {
    fn new(statement: &PreparedStatement) -> Prepared {
        let at = |level| {
            let mut statement = statement.clone();
            statement.set_consistency(level);
            (level, statement)
        };
        Prepared(LEVELS.map(at).into())
    }

    pub(crate) fn at(&self, consistency: Consistency) -> &PreparedStatement {
        let found = self.0.iter().find(|(level, _)| *level == consistency);
        &found.expect("one of the levels that requests ask for").1
    }
}

/// What is done with the rows of `entities`.
pub(crate) struct Entities {
    pub(crate) get: Prepared,
    pub(crate) get_mark: Prepared,
    /// A page of a bucket, from a key on or back to it.
    pub(crate) page: Prepared,
    pub(crate) page_back: Prepared,
    /// Some rows of a bucket, with their values.
    pub(crate) values: Prepared,
    pub(crate) put: Prepared,
    pub(crate) delete: Prepared,
    /// The same as lightweight transactions, unless the row has a mark that none has; and if it has this one.
    pub(crate) put_decided: Prepared,
    pub(crate) put_if: Prepared,
    pub(crate) delete_decided: Prepared,
    pub(crate) delete_if: Prepared,
}

/// What is done with the pieces of values.
pub(crate) struct PieceStatements {
    pub(crate) begin: Prepared,
    pub(crate) put: Prepared,
    pub(crate) get: Prepared,
    pub(crate) uploads: Prepared,
    pub(crate) delete: Prepared,
    pub(crate) forget: Prepared,
}

/// A keyspace whose tables are as they should be.
pub(crate) struct Keyspace {
    /// How many copies its keys have.
    pub(crate) from: u32,
    pub(crate) meta: Meta,
    pub(crate) entities: Entities,
    pub(crate) pieces: PieceStatements,
}

impl Keyspace {
    /// Makes it, if it is missing, and checks it.
    pub(crate) async fn prepare(
        session: &Session,
        wanted: Wanted<'_>,
        attempts: &Arc<Attempts>,
    ) -> Result<Keyspace, StartError> {
        let meta = schema::prepare(session, wanted).await?;
        Preparing { session, wanted, attempts }.keyspace(meta).await
    }

    /// Of one that others have made: makes nothing. None if they have not made all of it.
    pub(crate) async fn find(
        session: &Session,
        wanted: Wanted<'_>,
        attempts: &Arc<Attempts>,
    ) -> Result<Option<Keyspace>, StartError> {
        let Some(meta) = schema::find(session, wanted).await? else { return Ok(None) };
        Preparing { session, wanted, attempts }.keyspace(meta).await.map(Some)
    }

    /// In which partition a key is. This must not change.
    pub(crate) fn bucket(&self, key: &[u8]) -> i32 {
        (xxh3_64(key) % self.meta.buckets.cast_unsigned() as u64) as i32
    }
}

struct Preparing<'s> {
    session: &'s Session,
    wanted: Wanted<'s>,
    /// Counts what the driver does for each statement.
    attempts: &'s Arc<Attempts>,
}

impl Preparing<'_> {
    async fn keyspace(&self, meta: Meta) -> Result<Keyspace, StartError> {
        let (entities, pieces) = (self.entities().await?, self.pieces().await?);
        Ok(Keyspace { from: self.wanted.from, meta, entities, pieces })
    }

    async fn entities(&self) -> Result<Entities, StartError> {
        let at = "WHERE bucket = ? AND key = ?";
        Ok(Entities {
            get: self.read("SELECT etag, value FROM", "entities", at).await?,
            get_mark: self.read("SELECT etag FROM", "entities", at).await?,
            page: self.page("ASC").await?,
            page_back: self.page("DESC").await?,
            values: self
                .read("SELECT key, etag, value FROM", "entities", "WHERE bucket = ? AND key IN ?")
                .await?,
            put: self
                .write(
                    "INSERT INTO",
                    "entities",
                    "(etag, value, bucket, key) VALUES (?, ?, ?, ?) USING TTL ? AND TIMESTAMP ?",
                )
                .await?,
            delete: self.write("DELETE FROM", "entities", &format!("USING TIMESTAMP ? {at}")).await?,
            put_decided: self
                .decided("UPDATE", &format!("USING TTL ? SET etag = ?, value = ? {at} IF etag != 0x"))
                .await?,
            put_if: self
                .decided("UPDATE", &format!("USING TTL ? SET etag = ?, value = ? {at} IF etag = ?"))
                .await?,
            delete_decided: self.decided("DELETE FROM", &format!("{at} IF etag != 0x")).await?,
            delete_if: self.decided("DELETE FROM", &format!("{at} IF etag = ?")).await?,
        })
    }

    async fn pieces(&self) -> Result<PieceStatements, StartError> {
        Ok(PieceStatements {
            begin: self
                .write("INSERT INTO", "uploads", "(bucket, key, upload) VALUES (?, ?, ?) USING TIMESTAMP ?")
                .await?,
            put: self
                .write(
                    "INSERT INTO",
                    "pieces",
                    "(key, upload, piece, bytes) VALUES (?, ?, ?, ?) USING TIMESTAMP ?",
                )
                .await?,
            get: self
                .read("SELECT bytes FROM", "pieces", "WHERE key = ? AND upload = ? AND piece = ?")
                .await?,
            uploads: self
                .read(
                    "SELECT key, upload FROM",
                    "uploads",
                    "WHERE bucket = ? AND (key, upload) > (?, ?) LIMIT ?",
                )
                .await?,
            delete: self
                .write("DELETE FROM", "pieces", "USING TIMESTAMP ? WHERE key = ? AND upload = ?")
                .await?,
            forget: self
                .write(
                    "DELETE FROM",
                    "uploads",
                    "USING TIMESTAMP ? WHERE bucket = ? AND key = ? AND upload = ?",
                )
                .await?,
        })
    }

    async fn page(&self, order: &str) -> Result<Prepared, StartError> {
        let rest = format!("WHERE bucket = ? AND key >= ? AND key < ? ORDER BY key {order} LIMIT ?");
        self.read("SELECT key, etag FROM", "entities", &rest).await
    }

    /// It may be asked of two nodes at a time. Its columns are named, so they are the same in each answer, and need not be told in it.
    async fn read(&self, what: &str, table: &str, rest: &str) -> Result<Prepared, StartError> {
        let mut prepared = self.prepare(what, table, rest).await?;
        prepared.set_use_cached_result_metadata(true);
        Ok(Prepared::new(&prepared))
    }

    /// The same: done twice, it is as if it were done once, as it says its own timestamp.
    async fn write(&self, what: &str, table: &str, rest: &str) -> Result<Prepared, StartError> {
        Ok(Prepared::new(&self.prepare(what, table, rest).await?))
    }

    async fn prepare(&self, what: &str, table: &str, rest: &str) -> Result<PreparedStatement, StartError> {
        let cql = format!("{what} {}.{table} {rest}", self.wanted.name());
        let prepared = self.session.prepare(cql).await;
        let mut prepared = prepared.map_err(|error| not_prepared(self.wanted, table, &error))?;
        prepared.set_is_idempotent(true);
        prepared.set_history_listener(Arc::<Attempts>::clone(self.attempts));
        Ok(prepared)
    }

    /// A write that is decided by what is there: never done twice, by nobody.
    async fn decided(&self, what: &str, rest: &str) -> Result<Prepared, StartError> {
        let mut prepared = self.prepare(what, "entities", rest).await?;
        prepared.set_is_idempotent(false);
        prepared.set_retry_policy(Some(Arc::new(FallthroughRetryPolicy::new())));
        prepared.set_serial_consistency(Some(SerialConsistency::Serial));
        Ok(Prepared::new(&prepared))
    }
}

/// A value in pieces: of which key, and what they are named by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct UploadName {
    pub(crate) key: Bytes,
    pub(crate) upload: Version,
}

impl UploadName {
    /// The partition that has them.
    pub(crate) fn columns(&self) -> (&[u8], [u8; 10]) {
        (&self.key, encode_version(self.upload))
    }

    /// When all of it is written, as far as Cassandra knows: before it is removed, also what a node is slow to write.
    pub(crate) fn written(&self) -> i64 {
        timestamp_of(self.upload)
    }

    /// When it is removed: now, by a clock that may be behind that of the door that wrote it.
    pub(crate) fn removed(&self, now: Version) -> i64 {
        timestamp_of(now).max(self.written() + 1)
    }
}

/// Whether writes are decided by Cassandra.
pub(crate) const fn is_decided(writes: Writes) -> bool {
    matches!(writes, Writes::Lwt)
}

#[cfg(test)]
mod tests {
    use ladoga_model::HybridClock;

    use super::*;

    /// A piece that a frozen node wrote after the others had removed it stayed for ever.
    #[test]
    fn what_is_removed_was_written_before_whichever_clock_is_ahead() {
        let at = |ms: u64| Version { timestamp: HybridClock::at_wall_ms(1_700_000_000_000 + ms), node: 1 };
        let name = UploadName { key: Bytes::from_static(b"key"), upload: at(60_000) };
        for now in [at(0), at(60_000), at(60_001)] {
            assert!(name.removed(now) > name.written(), "{now:?}");
            assert!(name.removed(now) >= timestamp_of(now), "{now:?}");
        }
    }
}
