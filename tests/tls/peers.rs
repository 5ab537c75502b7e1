use std::fs;
use std::net::Ipv4Addr;

use crate::certs::{Certs, Made, wait_until_it_serves};
use crate::secure::Trusting;
use crate::support::{Ladoga, Launch, Node, entity, wait_until};

/// Three hosts of this machine.
const HOSTS: [&str; 3] = ["127.0.0.1", "127.0.0.2", "127.0.0.3"];

/// Three nodes, each with the certificate of its host, unless another is given for it.
fn launches(certs: &Certs, shown: [&str; 3]) -> Vec<Launch> {
    let on = |host: &str| Launch::patient().on_host(host.parse::<Ipv4Addr>().expect("an address"));
    let launches = HOSTS.map(on);
    let urls: Vec<String> =
        launches.iter().map(|launch| launch.url().replace("http://", "https://")).collect();
    let all = urls.join(",");
    let patience = [("PEER", "20000"), ("PEER_CONNECT", "20000"), ("QUORUM", "3000")];
    launches
        .into_iter()
        .zip(&urls)
        .zip(shown)
        .map(|((launch, url), shown)| {
            let launch = patience.into_iter().fold(launch, |launch, (name, timeout_ms)| {
                launch.env(&format!("LADOGA_{name}_TIMEOUT_MS"), timeout_ms)
            });
            certs
                .with(launch, shown)
                .flag("--cluster", &all)
                .flag("--advertise", url)
                .flag("--peer-ca", &certs.made("ca.pem"))
        })
        .collect()
}

fn start(launches: Vec<Launch>, trusting: &Trusting) -> Vec<Node> {
    let nodes: Vec<Node> = launches.into_iter().map(Launch::spawn).collect();
    nodes.iter().for_each(|node| wait_until_it_serves(node, trusting));
    nodes
}

fn put_on_all(node: &Node, trusting: &Trusting, key: &str) {
    let target = format!("{}&replicas=3/3", entity(key));
    wait_until("nodes that reach each other", || {
        let Ok(mut connection) = trusting.try_open(node.address()) else { return false };
        connection.try_request("PUT", &target, Some(b"v")).is_ok_and(|response| response.status == 201)
    });
}

fn refused(node: &Node, trusting: &Trusting) -> u64 {
    let metrics = trusting.open(node.address()).request("GET", "/metrics", None);
    let name = "ladoga_tls_peers_refused_total ";
    metrics.text().lines().find_map(|line| line.strip_prefix(name)).expect(name).parse().expect("a number")
}

/// What who asks for the protocol of nodes is answered.
fn knock(node: &Node, trusting: &Trusting) -> Option<u16> {
    let mut connection = trusting.try_open(node.address()).ok()?;
    connection.send(format!(
        "GET /v0/peer HTTP/1.1\r\nHost: {}\r\nConnection: upgrade\r\nUpgrade: ladoga-peer/0\r\n\r\n",
        node.address()
    ));
    connection.try_response().ok().map(|response| response.status)
}

#[test]
fn nodes_reach_each_other_and_let_no_stranger_in() {
    let certs = Certs::of(&HOSTS);
    let trusting = certs.trusting();
    let mut nodes = start(launches(&certs, HOSTS), &trusting);
    put_on_all(&nodes[0], &trusting, "a");
    for node in &nodes {
        // Ordinary clients need no certificate.
        assert_eq!(trusting.open(node.address()).request("GET", &entity("a"), None).body, b"v");
    }
    let report = trusting.open(nodes[0].address()).request("GET", "/v0/cluster", None);
    assert!(report.text().contains("https://127.0.0.2:") && !report.text().contains("http://"), "{report:?}");

    let read = |name: &str| fs::read_to_string(certs.made(name)).expect("a file");
    let before = refused(&nodes[0], &trusting);
    // Without a certificate, and with one that the authority has signed for somebody who is no node.
    assert_eq!(knock(&nodes[0], &trusting), Some(403));
    let alice = trusting.clone().showing(&read("alice.pem"), &read("alice.key"));
    assert_eq!(knock(&nodes[0], &alice), Some(403));
    assert_eq!(refused(&nodes[0], &trusting), before + 2);
    assert!(nodes[0].log().contains("refused a peer"), "{}", nodes[0].log());
    // Of another authority: for a client it is as good as none, and for a node no better.
    for stranger in [Made::new(HOSTS[1], |_| {}), Made::expired(HOSTS[1])] {
        let stranger = trusting.clone().showing(&stranger.certificate, &stranger.key);
        for version in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
            let stranger = stranger.clone().by(version);
            assert_eq!(knock(&nodes[0], &stranger), Some(403));
            assert_eq!(stranger.open(nodes[0].address()).request("GET", &entity("a"), None).body, b"v");
        }
    }
    assert_eq!(refused(&nodes[0], &trusting), before + 6);
    // A node is let in; this is another version of the protocol.
    let node = trusting.clone().showing(&read("127.0.0.2.pem"), &read("127.0.0.2.key"));
    assert_eq!(knock(&nodes[0], &node), Some(426));

    // One that was away is one of them again.
    nodes[2].stop();
    nodes[2].spawn();
    wait_until_it_serves(&nodes[2], &trusting);
    put_on_all(&nodes[1], &trusting, "b");
    nodes[1].kill();
    nodes[1].spawn();
    wait_until_it_serves(&nodes[1], &trusting);
    put_on_all(&nodes[0], &trusting, "c");
}

/// Each was a line, and the disk was full.
#[test]
fn a_stranger_that_knocks_again_and_again_does_not_fill_the_log() {
    const KNOCKS: usize = 500;
    let certs = Certs::of(&HOSTS);
    let trusting = certs.trusting();
    let nodes = start(launches(&certs, HOSTS), &trusting);
    let mut stranger = trusting.open(nodes[0].address());
    for _ in 0..KNOCKS {
        assert_eq!(stranger.request("GET", "/v0/peer", None).status, 403);
    }
    wait_until("what was left out", || {
        nodes[0].log().contains("refused peers that the log has no lines for")
    });
    let lines = nodes[0].log().matches("refused a peer").count();
    assert!((1..KNOCKS / 2).contains(&lines), "{lines} lines");
}

/// The client knows the other nodes by the answers of the first.
#[test]
fn a_cluster_is_backed_up_by_https() {
    let certs = Certs::of(&HOSTS);
    let trusting = certs.trusting();
    let nodes = start(launches(&certs, HOSTS), &trusting);
    put_on_all(&nodes[0], &trusting, "a");
    let (url, repository) = (format!("https://{}", nodes[1].address()), certs.text("backups"));
    let create = ["backup", "create", "--to", &repository, "--url", &url, "--cacert", &certs.made("ca.pem")];
    Ladoga::new(create).run().expect_success();
    let listed = Ladoga::new(["backup", "list", "--to", &repository]).run().expect_success();
    let (listed, hosts) = (listed.text(), nodes.iter().map(|node| node.address().to_string()));
    assert!(!listed.contains("without"), "{listed}");
    hosts.for_each(|host| assert!(listed.contains(&host), "{host}: {listed}"));
}

/// Lists have the names of nodes, which are the same with TLS and without it; people have URLs.
#[test]
fn messages_name_nodes_by_their_urls() {
    let certs = Certs::of(&HOSTS);
    let trusting = certs.trusting();
    let mut nodes = start(launches(&certs, HOSTS), &trusting);
    put_on_all(&nodes[0], &trusting, "a");
    let others = nodes[1..].iter().map(|node| format!("https://{}", node.address())).collect::<Vec<_>>();
    nodes[1..].iter_mut().for_each(Node::stop);
    let mut connection = trusting.open(nodes[0].address());
    for target in [
        format!("{}&replicas=3/3", entity("a")),
        "/v0/entities?start=a&scope=cluster&replicas=3/3".to_owned(),
    ] {
        let response = connection.request("GET", &target, None);
        assert_eq!(response.status, 504, "{response:?}");
        let text = response.text();
        assert!(others.iter().any(|url| text.contains(url)) && !text.contains("http://"), "{text}");
    }
    nodes[0].stop();
    let own = format!("https://{}", nodes[0].address());
    let fewer = format!("{own},{}", others[0]);
    let (data, address) = (nodes[0].data().to_str().expect("a path of text"), nodes[0].address().to_string());
    let check = ["serve", "--check-config", "--data", data, "--listen", &address, "--cluster", &fewer];
    let files = [("--tls-cert", "127.0.0.1.pem"), ("--tls-key", "127.0.0.1.key"), ("--peer-ca", "ca.pem")];
    let files = files.map(|(flag, name)| [flag.to_owned(), certs.made(name)]).concat();
    let outcome = Ladoga::new(check.into_iter().chain(files.iter().map(String::as_str))).run();
    let outcome = outcome.expect_failure(2, &["--cluster", &fewer, &others[1]]);
    assert!(!outcome.stderr.contains("http://"), "{outcome:?}");
}

/// Its certificate is one of the cluster, and not its own.
#[test]
fn a_node_is_who_its_certificate_says() {
    let certs = Certs::of(&HOSTS);
    let trusting = certs.trusting();
    // The third shows what belongs to the second.
    let nodes: Vec<Node> =
        launches(&certs, [HOSTS[0], HOSTS[1], HOSTS[1]]).into_iter().map(Launch::spawn).collect();
    nodes[..2].iter().for_each(|node| wait_until_it_serves(node, &trusting));
    let target = format!("{}&replicas=2/3", entity("a"));
    wait_until("two nodes that reach each other", || {
        let put = trusting.open(nodes[0].address()).request("PUT", &target, Some(b"v"));
        put.status == 201
    });
    wait_until("a node that is refused", || nodes[0].log().contains("its certificate is not for 127.0.0.3"));
    assert!(nodes[0].log().contains("claims to be https://127.0.0.3:"), "{}", nodes[0].log());
    wait_until("a node that is not asked", || {
        let report = trusting.open(nodes[0].address()).request("GET", "/v0/cluster", None);
        report.text().contains("certificate is for another name")
    });
    assert!(refused(&nodes[0], &trusting) > 0);
}

#[test]
fn certificates_of_nodes_are_read_anew() {
    let (certs, other) = (Certs::of(&HOSTS), Certs::of(&HOSTS));
    let trusting = certs.trusting();
    let mut nodes = start(launches(&certs, HOSTS), &trusting);
    put_on_all(&nodes[0], &trusting, "a");
    // Both authorities count while nodes go over from one to the other.
    let both =
        [fs::read(certs.made("ca.pem")), fs::read(other.made("ca.pem"))].map(|file| file.expect("a file"));
    fs::write(certs.made("ca.pem"), both.concat()).expect("a file");
    let hang_up = |nodes: &[Node], count: &dyn Fn(&Node) -> bool| {
        nodes.iter().for_each(|node| node.signal("HUP"));
        nodes.iter().for_each(|node| wait_until("files that are read anew", || count(node)));
    };
    hang_up(&nodes, &|node| has_reloaded(node, &trusting, 1));
    for host in HOSTS {
        for end in ["pem", "key"] {
            let name = format!("{host}.{end}");
            fs::copy(other.made(&name), certs.made(&name)).expect("a copy");
        }
    }
    let new = other.trusting();
    hang_up(&nodes, &|node| new.try_open(node.address()).is_ok());
    put_on_all(&nodes[0], &new, "b");
    // A connection that is made anew is made by the new ones.
    nodes[1].kill();
    nodes[1].spawn();
    wait_until_it_serves(&nodes[1], &new);
    put_on_all(&nodes[1], &new, "c");
}

fn has_reloaded(node: &Node, trusting: &Trusting, times: u64) -> bool {
    let metrics = trusting.open(node.address()).request("GET", "/metrics", None);
    let name = "ladoga_tls_reloads_total ";
    let line = metrics.text().lines().find_map(|line| line.strip_prefix(name)).expect(name).to_owned();
    line.parse::<u64>().expect("a number") >= times
}
