use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use ladoga_model::Replicas;
use ladoga_service::Error;
use scylla::client::session::Session;
use scylla::response::query_result::{QueryResult, QueryRowsResult};
use scylla::serialize::row::SerializeRow;
use scylla::statement::Consistency;

use crate::consistency::consistency;
use crate::failure::{Asked, unreachable};
use crate::keyspace::{Keyspace, Prepared};
use crate::retries::Tried;
use crate::shared::Shared;

/// What a request needs to go on by itself.
#[derive(Clone)]
pub(crate) struct At {
    pub(crate) shared: Arc<Shared>,
    /// The connections that it goes by: those of an event loop for what stays on it.
    pub(crate) session: Arc<Session>,
    pub(crate) keyspace: Arc<Keyspace>,
    pub(crate) replicas: Replicas,
}

impl At {
    pub(crate) async fn new(
        shared: Arc<Shared>,
        session: Arc<Session>,
        replicas: Replicas,
    ) -> Result<At, Error> {
        let keyspace = shared.keyspace(replicas.from).await?;
        Ok(At { shared, session, keyspace, replicas })
    }

    pub(crate) fn read(&self) -> Asked {
        Asked::read(self.replicas)
    }

    pub(crate) fn write(&self) -> Asked {
        Asked::write(self.replicas)
    }

    pub(crate) fn decided(&self) -> Asked {
        Asked::decided(self.replicas)
    }

    /// Runs a statement, and waits for as many copies as were asked for.
    pub(crate) fn run(
        &self,
        statement: &Prepared,
        values: impl SerializeRow,
        asked: Asked,
    ) -> impl Future<Output = Result<QueryResult, Error>> {
        self.run_at(consistency(asked.replicas), statement, values, asked)
    }

    pub(crate) async fn run_at(
        &self,
        consistency: Consistency,
        statement: &Prepared,
        values: impl SerializeRow,
        asked: Asked,
    ) -> Result<QueryResult, Error> {
        let counts = &self.shared.counts;
        counts.statements.fetch_add(1, Ordering::Relaxed);
        let mut request = pin!(Tried::noted(self.session.execute_unpaged(statement.at(consistency), values)));
        let result = request.as_mut().await;
        let result = result.map_err(|error| {
            counts.failures.fetch_add(1, Ordering::Relaxed);
            asked.failed(&error, Tried::of(request))
        })?;
        if let Some(warning) = result.warnings().next() {
            self.shared.warnings.log(warning);
        }
        Ok(result)
    }

    /// The same of a statement that answers rows.
    pub(crate) async fn rows(
        &self,
        statement: &Prepared,
        values: impl SerializeRow,
        asked: Asked,
    ) -> Result<QueryRowsResult, Error> {
        rows(self.run(statement, values, asked).await?)
    }
}

/// The rows of an answer.
pub(crate) fn rows(result: QueryResult) -> Result<QueryRowsResult, Error> {
    result.into_rows_result().map_err(|error| unreachable(format_args!("Cassandra's answer: {error}")))
}

/// A column of bytes, or nothing.
pub(crate) type Column = Option<Bytes>;
