use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;

use ladoga_cassandra_nodes::{CommitLogSync, Login, Nodes, Room, Setup};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use scylla::client::session_builder::SessionBuilder;

use crate::cql::{Cql, replication};
use crate::support::{
    Connection, Directory, Ladoga, Launch, Node, Outcome, Port, assert_refusal, cassandra, entity, value,
    wait_until,
};

/// How much it takes: a part of it is its own tables.
const QUOTA_BYTES: u64 = 32 << 20;

/// A Cassandra that asks for a password and speaks TLS, and its administrator.
struct Guarded {
    nodes: Nodes,
    /// What signs for it.
    authority: PathBuf,
    directory: Directory,
    cql: Cql,
}

impl Guarded {
    fn start() -> Option<Guarded> {
        let directory = Directory::new();
        let authority = directory.path().join("ca.pem");
        let certificate = |host: Ipv4Addr| {
            let made = generate_simple_self_signed([host.to_string()]);
            let CertifiedKey { cert, signing_key } = made.expect("a certificate");
            fs::write(&authority, cert.pem()).expect("a file for the certificate");
            format!("{}{}", signing_key.serialize_pem(), cert.pem())
        };
        let setup = Setup {
            login: Login::ByPassword,
            certificate: Some(&certificate),
            room: Room::Quota(QUOTA_BYTES),
            ..Setup::open(CommitLogSync::Periodic)
        };
        let nodes = cassandra(1, setup)?;
        let pem = fs::read(&authority).expect("the certificate");
        let cql = Cql::connect(|| {
            SessionBuilder::new()
                .known_node(nodes.addresses())
                .user("cassandra", "cassandra")
                .tls_context(Some(client_config(&pem)))
        });
        Some(Guarded { nodes, authority, directory, cql })
    }

    fn cql(&self, statements: &[&str]) {
        self.cql.run(statements);
    }

    /// The flags of a door for a user with a password.
    fn flags(&self, keyspace: &str, user: &str, password: &str) -> Vec<String> {
        let file = self.directory.path().join(format!("password-{user}-{password}"));
        fs::write(&file, password).expect("a file for the password");
        let authority = self.authority.display().to_string();
        let file = file.display().to_string();
        let flags = [
            ["--engine", "cassandra"],
            ["--cassandra-nodes", &self.nodes.addresses()],
            ["--cassandra-keyspace", keyspace],
            ["--cassandra-tls-ca", &authority],
            ["--cassandra-user", user],
            ["--cassandra-password-file", &file],
            ["--cassandra-replicas", "1"],
            ["--fsync", "everysec"],
        ];
        flags.into_iter().flatten().map(str::to_owned).collect()
    }

    fn door(&self, keyspace: &str, user: &str, password: &str) -> Node {
        self.launch(keyspace, user, password).start()
    }

    fn launch(&self, keyspace: &str, user: &str, password: &str) -> Launch {
        let flags = self.flags(keyspace, user, password);
        let launch = flags.chunks(2).fold(Launch::embedded(), |launch, flag| launch.flag(&flag[0], &flag[1]));
        launch.env("LADOGA_QUORUM_TIMEOUT_MS", "60000")
    }
}

fn client_config(pem: &[u8]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(pem).expect("a certificate");
    roots.add(certificate).expect("a certificate that can sign");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions that the provider knows");
    Arc::new(config.with_root_certificates(roots).with_no_client_auth())
}

/// A door that is going to say why it does not start.
fn refused(flags: &[String], leave_out: &[&str]) -> Outcome {
    let listen = Port::claim().address().to_string();
    let kept = flags.chunks(2).filter(|flag| !leave_out.contains(&flag[0].as_str())).flatten();
    let fixed = ["serve", "--listen", &listen].map(str::to_owned);
    Ladoga::new(fixed.iter().chain(kept)).env("LADOGA_QUORUM_TIMEOUT_MS", "60000").run()
}

#[test]
fn passwords_rights_and_tls_are_those_of_cassandra() {
    let Some(guarded) = Guarded::start() else { return };
    who_is_let_in(&guarded);
    what_may_be_done(&guarded);
    what_is_there_already(&guarded);
    what_a_ready_door_needs(&guarded);
    what_no_room_is_left_for(&guarded);
}

fn who_is_let_in(guarded: &Guarded) {
    let door = guarded.door("own", "cassandra", "cassandra");
    let large = value(1, 1_000_000);
    door.connect().put("key", &large);
    assert!(door.connect().value("key") == Some(large));
    let flags = guarded.flags("own", "cassandra", "wrong");
    refused(&flags, &[]).expect_failure(1, &["Cassandra refuses the user 'cassandra'", "CREATE ROLE"]);
    refused(&flags, &["--cassandra-user", "--cassandra-password-file"])
        .expect_failure(1, &["refuses the user nobody", "--cassandra-password-file"]);
    let flags = guarded.flags("own", "cassandra", "cassandra");
    refused(&flags, &["--cassandra-tls-ca"]).expect_failure(1, &["no node of --cassandra-nodes"]);
    let other = generate_simple_self_signed(["other".to_owned()]).expect("a certificate");
    let file = guarded.directory.path().join("other.pem");
    fs::write(&file, other.cert.pem()).expect("a file for the certificate");
    let mut flags = flags;
    let at = flags.iter().position(|flag| flag == "--cassandra-tls-ca").expect("the flag");
    flags[at + 1] = file.display().to_string();
    refused(&flags, &[]).expect_failure(1, &["no node of --cassandra-nodes", "certificate"]);
}

fn what_may_be_done(guarded: &Guarded) {
    guarded.cql(&["CREATE ROLE door WITH LOGIN = true AND PASSWORD = 'open'"]);
    refused(&guarded.flags("others", "door", "open"), &[]).expect_failure(
        1,
        &[
            "the keyspace others_rf1 cannot be made",
            "CREATE KEYSPACE IF NOT EXISTS others_rf1",
            "INSERT INTO",
        ],
    );
    guarded.cql(&["GRANT SELECT ON KEYSPACE own_rf1 TO door"]);
    let door = guarded.door("own", "door", "open");
    let mut connection = door.connect();
    assert_eq!(connection.get("key").status, 200);
    let put = connection.request("PUT", &entity("small"), Some(b"v"));
    assert_refusal(&put, 503, "PUT without the right to it");
    assert!(put.text().contains("GRANT SELECT and MODIFY"), "{}", put.text());
    when_a_write_is_on_disk(guarded, &mut connection);
    guarded.cql(&["GRANT MODIFY ON KEYSPACE own_rf1 TO door"]);
    // Cassandra remembers for a while what somebody may do.
    wait_until("a right that counts", || {
        door.connect().request("PUT", &entity("small"), Some(b"v")).status == 201
    });
}

/// A Cassandra that did not say was taken for one that syncs.
fn when_a_write_is_on_disk(guarded: &Guarded, connection: &mut Connection) {
    let what_helps = "GRANT SELECT ON system_views.settings TO";
    let put = connection.request("PUT", &format!("{}&fsync=always", entity("small")), Some(b"v"));
    assert_refusal(&put, 501, "PUT that has to be on disk");
    assert!(put.text().contains(what_helps), "{}", put.text());
    // It is `always` then.
    let without = || refused(&guarded.flags("own", "door", "open"), &["--fsync"]);
    without().expect_failure(1, &["--fsync is 'always'", "User door has no SELECT permission", what_helps]);
    guarded.cql(&["GRANT SELECT ON system_views.settings TO door"]);
    wait_until("a right that counts", || without().stderr.contains("have commitlog_sync periodic"));
}

fn what_is_there_already(guarded: &Guarded) {
    guarded.cql(&[
        &format!("CREATE KEYSPACE twice_rf1 {}", replication(2)),
        &format!("CREATE KEYSPACE foreign_rf1 {}", replication(1)),
        "CREATE TABLE foreign_rf1.meta (id int PRIMARY KEY, text text)",
        &format!("CREATE KEYSPACE later_rf1 {}", replication(1)),
        "CREATE TABLE later_rf1.meta (id text PRIMARY KEY, layout int, buckets int, writes text)",
        "INSERT INTO later_rf1.meta (id, layout, buckets, writes) VALUES ('ladoga', 2, 256, 'plain')",
        &format!("CREATE KEYSPACE half_rf1 {}", replication(1)),
        "CREATE TABLE half_rf1.entities (bucket text, key blob, PRIMARY KEY (bucket, key))",
    ]);
    let start = |keyspace: &str| refused(&guarded.flags(keyspace, "cassandra", "cassandra"), &[]);
    start("twice").expect_failure(1, &["the keyspace twice_rf1 has replication", "ALTER KEYSPACE twice_rf1"]);
    for (keyspace, what) in
        [("foreign", "docs/cassandra.md"), ("later", "layout is 2, expected 1"), ("half", "entities")]
    {
        start(keyspace).expect_failure(1, &["has tables of another layout", what]);
    }
    // What the manual says is to be done before a keyspace is written in another way.
    let newest = "SELECT max(WRITETIME(etag)) FROM own_rf1.entities";
    guarded.cql(&[newest, &format!("{newest} WHERE bucket = 0")]);
}

fn what_a_ready_door_needs(guarded: &Guarded) {
    let door = guarded.door("needed", "cassandra", "cassandra");
    let mut connection = door.connect();
    // Other reasons may come first: a Cassandra that is slow is one, too.
    let mut wait_for_reason = |expected: &[&str]| {
        wait_until(expected[0], || {
            let answer = connection.request("GET", "/readyz?verbose", None);
            let told = answer.text();
            assert!(if answer.status == 200 { told == "ready\n" } else { answer.status == 503 }, "{told}");
            expected.iter().all(|part| told.contains(part))
        });
    };
    let table = "needed_rf1.pieces (key blob, upload blob, piece int, bytes blob, PRIMARY KEY ((key, upload), piece))";
    guarded.cql(&["DROP TABLE needed_rf1.pieces"]);
    wait_for_reason(&["pieces: the column key is missing, expected partition_key blob"]);
    guarded.cql(&[&format!("CREATE TABLE {}", table.replace("bytes blob", "bytes text"))]);
    wait_for_reason(&["bytes is regular text, expected regular blob"]);
    guarded.cql(&["DROP TABLE needed_rf1.pieces", &format!("CREATE TABLE {table}")]);
    wait_until("a door that is ready again", || door.connect().request("GET", "/readyz", None).status == 200);
    let large = value(1, 1_000_000);
    wait_until("values in pieces again", || {
        door.connect().request("PUT", &entity("large"), Some(&large)).status == 201
    });
    guarded.cql(&["DROP KEYSPACE needed_rf1"]);
    wait_for_reason(&["the keyspace needed_rf1 is missing", "CREATE KEYSPACE IF NOT EXISTS needed_rf1"]);
    // A door of the other kind makes it anew. This one wrote to it as before.
    let other = guarded.launch("needed", "cassandra", "cassandra").flag("--cassandra-writes", "lwt").start();
    other.connect().put("key", b"v");
    wait_for_reason(&["the keyspace needed_rf1 is written with --cassandra-writes lwt"]);
    let put = door.connect().request("PUT", &entity("key"), Some(b"w"));
    assert_refusal(&put, 503, "PUT to a keyspace that is written in the other way");
    assert_eq!(other.connect().value("key").as_deref(), Some(&b"v"[..]));
    drop(other);
    guarded.cql(&["UPDATE needed_rf1.meta SET writes = 'plain', buckets = 16 WHERE id = 'ladoga'"]);
    wait_until("a door that may write", || door.connect().request("GET", "/readyz", None).status == 200);
    door.connect().put("key", b"w");
    let later = guarded.door("needed", "cassandra", "cassandra");
    assert_eq!(
        later.connect().value("key").as_deref(),
        Some(&b"w"[..]),
        "both know the new number of buckets"
    );
}

fn what_no_room_is_left_for(guarded: &Guarded) {
    drop(guarded.door("bulk", "cassandra", "cassandra"));
    guarded.cql(&["GRANT SELECT ON KEYSPACE bulk_rf1 TO door", "GRANT MODIFY ON KEYSPACE bulk_rf1 TO door"]);
    let (door, bulk) = (guarded.door("own", "door", "open"), guarded.door("bulk", "door", "open"));
    let (mut connection, mut to_bulk) = (door.connect(), bulk.connect());
    connection.put("before", b"v");
    let refused = (0..2 * QUOTA_BYTES).step_by(100_000).find_map(|number| {
        let put = to_bulk.request("PUT", &entity(format!("{number}")), Some(&value(number, 100_000)));
        (put.status != 201).then_some(put)
    });
    let refused = refused.expect("a quota that is used up");
    assert_refusal(&refused, 507, "PUT above the quota");
    assert!(refused.text().contains("disk usage"), "{}", refused.text());
    let put = connection.request("PUT", &entity("more"), Some(b"v"));
    assert_refusal(&put, 507, "PUT to another keyspace");
    let deleted = connection.request("DELETE", &entity("before"), None);
    assert_refusal(&deleted, 507, "DELETE, which Cassandra refuses as well");
    assert_eq!(connection.value("before").as_deref(), Some(&b"v"[..]));
    drop(bulk);
    guarded.cql(&["DROP KEYSPACE bulk_rf1"]);
    wait_until("writes that come back by themselves", || {
        connection.request("PUT", &entity("more"), Some(b"v")).status == 201
    });
    assert_eq!(connection.value("before").as_deref(), Some(&b"v"[..]));
}
