use std::env;
use std::fs;
use std::net::Ipv4Addr;
use std::process::{Command, Output};

use super::{Launch, Node, skip};

/// Set for a test that is in a network of its own.
const INSIDE: &str = "LADOGA_TEST_INSIDE";
/// Prepares a network of the test's own: names of networks that nothing else sees.
const PREPARE: &str = "mount -t tmpfs ladoga-test /run && ip link set lo up";
/// What it does there, at the least.
const PROBE: &str = "ip netns add probe && ip link add one type veth peer name other netns probe \
                     && ip link add hub type bridge && nsenter --net=/run/netns/probe true";
/// An address without an owner: what is sent there is lost without a sign.
const NOBODY: &str = "02:00:00:00:ff:ff";

/// Nodes in a network each, joined by a bridge; the test is beside the bridge and reaches all of them, whatever is cut
/// between them.
///
/// All of it is inside a network and a file system of the test process alone, so that the system takes it back when the
/// process ends, however that happens.
pub(crate) struct Network {
    nodes: usize,
}

/// Runs `test`, whose full name is `name`, in a network of its own, in another process. If that is not permitted, this is
/// reported, and the test is skipped.
pub(crate) fn in_a_network_of_its_own(name: &str, test: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        return test();
    }
    let probe = apart(&format!("{PREPARE} && {PROBE}"), "sh").output();
    let reason = match &probe {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("unshare: {error}")),
    };
    if let Some(reason) = reason {
        return skip(&format!("no networks of one's own (unshare, ip, nsenter): {reason}"));
    }
    let program = env::current_exe().expect("the test has a file");
    let mut command = apart(&format!("{PREPARE} && exec \"$0\" \"$@\""), &program.to_string_lossy());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(INSIDE, "1");
    let output = command.output().expect("the test starts again");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "in a network of its own:\n{out}\n{errors}");
    assert!(out.contains("1 passed"), "{name} is not its name: {out}");
}

/// A shell script in a network and a file system of its own.
fn apart(script: &str, zeroth: &str) -> Command {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let mut command = Command::new("unshare");
    if !is_root {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--mount", "--", "sh", "-c", script, zeroth]);
    command
}

#[track_caller]
fn ip(arguments: &str) {
    let Output { status, stderr, .. } =
        Command::new("ip").args(arguments.split_whitespace()).output().expect("it was probed");
    assert!(status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&stderr));
}

impl Network {
    /// A network for each of so many nodes.
    pub(crate) fn of(nodes: usize) -> Network {
        assert!(env::var_os(INSIDE).is_some(), "only inside of a network of its own");
        ip("link add hub type bridge");
        ip("address add 10.0.0.254/24 dev hub");
        ip("link set hub up");
        for node in 0..nodes {
            ip(&format!("netns add node{node}"));
            ip(&format!("link add port{node} type veth peer name eth0 netns node{node}"));
            ip(&format!("link set port{node} master hub up"));
            ip(&format!("-n node{node} link set eth0 address {}", hardware(node)));
            ip(&format!("-n node{node} address add {}/24 dev eth0", Network::host(node)));
            ip(&format!("-n node{node} link set eth0 up"));
            ip(&format!("-n node{node} link set lo up"));
        }
        let network = Network { nodes };
        for node in 0..nodes {
            network.others(node).for_each(|other| network.heal(node, other));
        }
        network
    }

    /// The address of a node.
    pub(crate) fn host(node: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, node as u8 + 1)
    }

    /// Makes a node run in its network.
    pub(crate) fn place(launch: Launch, node: usize) -> Launch {
        let enter = ["nsenter".to_owned(), format!("--net=/run/netns/node{node}"), "--".to_owned()];
        launch.on_host(Network::host(node)).wrapper(&enter)
    }

    /// Loses everything that one node sends to another, without a sign; the other direction works.
    pub(crate) fn cut(&self, from: usize, to: usize) {
        self.send_to(from, to, NOBODY);
    }

    /// Ends that.
    pub(crate) fn heal(&self, from: usize, to: usize) {
        self.send_to(from, to, &hardware(to));
    }

    /// Cuts a node off from all others, both ways.
    pub(crate) fn isolate(&self, node: usize) {
        for other in self.others(node) {
            self.cut(node, other);
            self.cut(other, node);
        }
    }

    /// Ends that.
    pub(crate) fn rejoin(&self, node: usize) {
        for other in self.others(node) {
            self.heal(node, other);
            self.heal(other, node);
        }
    }

    /// Pulls a node's cable, or puts it back; the test cannot reach it either.
    pub(crate) fn plug(&self, node: usize, is_in: bool) {
        assert!(node < self.nodes, "there are {} nodes", self.nodes);
        ip(&format!("link set port{node} {}", if is_in { "up" } else { "down" }));
    }

    fn others(&self, node: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.nodes).filter(move |&other| other != node)
    }

    fn send_to(&self, from: usize, to: usize, hardware: &str) {
        assert!(from < self.nodes && to < self.nodes, "there are {} nodes", self.nodes);
        let host = Network::host(to);
        ip(&format!("-n node{from} neighbour replace {host} lladdr {hardware} nud permanent dev eth0"));
    }
}

fn hardware(node: usize) -> String {
    format!("02:00:00:00:00:{:02x}", node + 1)
}

/// How often the first bytes that `to` has not acknowledged were sent again, on the connection on which that is most.
pub(crate) fn retransmissions(from: &Node, to: &Node) -> u32 {
    let sockets = fs::read_to_string(format!("/proc/{}/net/tcp", from.pid())).expect("the node's sockets");
    let address = to.address();
    let std::net::IpAddr::V4(ip) = address.ip() else { panic!("nodes have addresses of version 4") };
    let remote = format!("{:08X}:{:04X}", u32::from_le_bytes(ip.octets()), address.port());
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields.get(2) == Some(&remote.as_str())).then(|| u32::from_str_radix(fields[6], 16).ok()).flatten()
    };
    sockets.lines().filter_map(of_line).max().unwrap_or(0)
}
