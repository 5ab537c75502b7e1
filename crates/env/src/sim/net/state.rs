use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use super::wire::{End, Packet, Wire};
use crate::Rng;
use crate::net::Resolved;
use crate::sim::SimRng;

/// The first port that is given to a listener on port 0.
const FREE_PORT_MIN: u16 = 49_152;
/// Connections that may wait to be accepted.
const BACKLOG_MAX: usize = 128;
/// When a lost packet is sent again for the first time; each time after that takes twice as long.
const RESEND_MS: u64 = 200;
const RESENDS_MAX: u32 = 6;
/// How long it takes until an idle connection to a host that is back is reset.
const ASKED_WITHIN_MS: u64 = 7_000;

/// The state of the network; every event is one function of it.
pub(super) struct NetState {
    rng: SimRng,
    pub(super) delay: (Duration, Duration),
    pub(super) loss_per_mille: u64,
    /// How long packets take from one host to another, if that is not `delay`; none of them is lost.
    pub(super) slow_paths: BTreeMap<(IpAddr, IpAddr), Duration>,
    cuts: BTreeSet<(IpAddr, IpAddr)>,
    /// Whether each host has power.
    hosts: BTreeMap<IpAddr, bool>,
    pub(super) names: BTreeMap<String, IpAddr>,
    pub(super) resolver_answers: bool,
    /// Look-ups that wait for a resolver which does not answer.
    pub(super) unresolved: Vec<Resolved>,
    listeners: BTreeMap<SocketAddr, Backlog>,
    next_port: u16,
    /// By number; none is used twice.
    pub(super) wires: BTreeMap<u64, Wire>,
    next_wire: u64,
    pub(super) packets: u64,
}

/// Connections that are not accepted yet, with when they arrive.
#[derive(Default)]
pub(super) struct Backlog {
    pub(super) arriving: VecDeque<(Instant, u64)>,
    pub(super) acceptor: Option<Waker>,
}

/// What becomes of the first packet of a connection.
pub(super) enum Knock {
    /// Never answered.
    Lost,
    /// Refused, because no listener is there, after so long.
    Refused(Duration),
    /// There is a connection by this number, which is known after so long.
    Accepted(u64, Duration),
}

impl NetState {
    pub(super) fn new(seed: u64) -> NetState {
        NetState {
            rng: SimRng::new(seed),
            delay: (Duration::from_micros(100), Duration::from_millis(1)),
            loss_per_mille: 0,
            slow_paths: BTreeMap::new(),
            cuts: BTreeSet::new(),
            hosts: BTreeMap::new(),
            names: BTreeMap::new(),
            resolver_answers: true,
            unresolved: Vec::new(),
            listeners: BTreeMap::new(),
            next_port: FREE_PORT_MIN,
            wires: BTreeMap::new(),
            next_wire: 0,
            packets: 0,
        }
    }

    pub(super) fn add_host(&mut self, name: &str, address: IpAddr) {
        let is_new = self.hosts.insert(address, true).is_none();
        assert!(is_new, "one host has the address {address}");
        self.names.insert(name.to_owned(), address);
    }

    fn has_power(&self, host: IpAddr) -> bool {
        self.hosts.get(&host).copied().unwrap_or(false)
    }

    pub(super) fn is_cut(&self, from: IpAddr, to: IpAddr) -> bool {
        self.cuts.contains(&(from, to))
    }

    /// How long a packet takes now: with each loss, until it was sent again.
    fn travel(&self, from: IpAddr, to: IpAddr) -> Duration {
        if let Some(delay) = self.slow_paths.get(&(from, to)) {
            return *delay;
        }
        let (min, max) = self.delay;
        let spread_us = max.saturating_sub(min).as_micros() as u64;
        let mut travel = min + Duration::from_micros(self.rng.below(spread_us + 1));
        for resend in 0..RESENDS_MAX {
            if self.loss_per_mille == 0 || self.rng.below(1000) >= self.loss_per_mille {
                break;
            }
            travel += Duration::from_millis(RESEND_MS << resend);
        }
        travel
    }

    /// How long after a cut has healed what it held back is sent again.
    fn resend(&self, from: IpAddr, to: IpAddr) -> Duration {
        Duration::from_millis(self.rng.below(RESEND_MS << 3)) + self.travel(from, to)
    }

    pub(super) fn listen(&mut self, ip: IpAddr, port: u16) -> io::Result<SocketAddr> {
        if !self.has_power(ip) {
            return Err(io::ErrorKind::NetworkDown.into());
        }
        let port = if port == 0 { self.free_port() } else { port };
        let address = SocketAddr::new(ip, port);
        if self.listeners.contains_key(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        self.listeners.insert(address, Backlog::default());
        Ok(address)
    }

    fn free_port(&mut self) -> u16 {
        self.next_port = if self.next_port == u16::MAX { FREE_PORT_MIN } else { self.next_port + 1 };
        self.next_port
    }

    pub(super) fn backlog(&mut self, address: SocketAddr) -> Option<&mut Backlog> {
        self.listeners.get_mut(&address)
    }

    /// Removes a listener.
    pub(super) fn unlisten(&mut self, address: SocketAddr) {
        let waiting = self.listeners.remove(&address).unwrap_or_default().arriving;
        for (_, wire) in waiting {
            self.close(wire, End::ACCEPTOR, true);
        }
    }

    /// The first packet of a connection is on its way.
    pub(super) fn knock(&mut self, from: IpAddr, to: SocketAddr) -> Knock {
        let is_lost = self.loss_per_mille > 0 && self.rng.below(1000) < self.loss_per_mille;
        let is_cut = self.is_cut(from, to.ip()) || self.is_cut(to.ip(), from);
        if is_lost || is_cut || !self.has_power(from) || !self.has_power(to.ip()) {
            return Knock::Lost;
        }
        let (there, back) = (self.travel(from, to.ip()), self.travel(to.ip(), from));
        let is_open = self.listeners.get(&to).is_some_and(|backlog| backlog.arriving.len() < BACKLOG_MAX);
        if !is_open {
            return Knock::Refused(there + back);
        }
        let port = self.free_port();
        let wire = self.next_wire;
        self.next_wire += 1;
        self.wires.insert(wire, Wire::new([SocketAddr::new(from, port), to], Instant::now()));
        let backlog = self.listeners.get_mut(&to).expect("it was looked at");
        backlog.arriving.push_back((Instant::now() + there, wire));
        if let Some(acceptor) = backlog.acceptor.take() {
            acceptor.wake();
        }
        Knock::Accepted(wire, there + back)
    }

    fn wire(&mut self, number: u64) -> &mut Wire {
        self.wires.get_mut(&number).expect("who has the number of a connection holds an end of it")
    }

    /// Sends a packet from one end of a wire to the other.
    pub(super) fn send(&mut self, wire: u64, end: usize, packet: Packet) {
        self.packets += 1;
        let [from, to] = self.wires[&wire].hosts(end);
        let travel = self.travel(from, to);
        let is_held = self.is_cut(from, to) || !self.has_power(to);
        let now = Instant::now();
        self.wire(wire).push(end, packet, (!is_held).then_some(now + travel));
    }

    /// One end of a wire is let go of. With `resets`, something was lost that it had not read.
    pub(super) fn close(&mut self, wire: u64, end: usize, resets: bool) {
        let Some(closed) = self.wires.get_mut(&wire) else { return };
        if !closed.ends[end].is_open {
            return self.forget_if_over(wire);
        }
        closed.ends[end].is_open = false;
        self.send(wire, end, if resets { Packet::Reset } else { Packet::Fin });
        self.forget_if_over(wire);
    }

    /// An end spoke to one that is closed, or that knows of no connection.
    pub(super) fn answer_with_reset(&mut self, wire: u64, speaker: usize) {
        let [from, to] = self.wires[&wire].hosts(speaker);
        let there = self.travel(from, to);
        let is_heard = !self.is_cut(from, to) && self.has_power(to);
        if is_heard && !self.wires[&wire].is_reset_under_way(1 - speaker) {
            let at = (!self.is_cut(to, from)).then(|| Instant::now() + there + self.travel(to, from));
            self.wire(wire).push(1 - speaker, Packet::Reset, at);
        }
    }

    fn forget_if_over(&mut self, wire: u64) {
        if self.wires[&wire].ends.iter().all(|end| !end.is_open) {
            self.wires.remove(&wire);
        }
    }

    pub(super) fn cut(&mut self, from: IpAddr, to: IpAddr) {
        if self.cuts.insert((from, to)) {
            let now = Instant::now();
            self.wires_between(from, to, |wire| wire.goes_silent(now));
        }
    }

    pub(super) fn heal(&mut self, from: IpAddr, to: IpAddr) {
        if !self.cuts.remove(&(from, to)) {
            return;
        }
        let is_whole = !self.is_cut(to, from) && self.has_power(from) && self.has_power(to);
        let (now, resend) = (Instant::now(), self.resend(from, to));
        let arrives = self.has_power(to);
        self.wires_between(from, to, |wire| {
            for end in [End::DIALER, End::ACCEPTOR] {
                if arrives && wire.hosts(end) == [from, to] {
                    wire.release(end, now + resend);
                }
            }
            if is_whole {
                wire.hear_again();
            }
        });
    }

    fn wires_between(&mut self, one: IpAddr, other: IpAddr, mut act: impl FnMut(&mut Wire)) {
        for wire in self.wires.values_mut() {
            if wire.hosts(End::DIALER) == [one, other] || wire.hosts(End::ACCEPTOR) == [one, other] {
                act(wire);
            }
        }
    }

    pub(super) fn power_off(&mut self, host: IpAddr) {
        self.hosts.insert(host, false);
        let gone: Vec<SocketAddr> = self.listeners.keys().copied().filter(|own| own.ip() == host).collect();
        for address in gone {
            self.listeners.remove(&address);
        }
        let now = Instant::now();
        for wire in self.wires.values_mut() {
            for end in [End::DIALER, End::ACCEPTOR] {
                if wire.hosts(end)[0] == host {
                    wire.vanish(end);
                    wire.goes_silent(now);
                }
            }
        }
        self.wires.retain(|_, wire| wire.ends.iter().any(|end| end.is_open));
    }

    /// The other ends of connections to the host are reset when they next send.
    pub(super) fn power_on(&mut self, host: IpAddr) {
        self.hosts.insert(host, true);
        let numbers: Vec<u64> = self.wires.keys().copied().collect();
        for number in numbers {
            for end in [End::DIALER, End::ACCEPTOR] {
                let wire = &self.wires[&number];
                let [own, other] = wire.hosts(end);
                if own != host || wire.ends[end].is_open || wire.is_reset_under_way(end) {
                    continue;
                }
                let within_ms = if wire.has_under_way(1 - end) { RESEND_MS << 2 } else { ASKED_WITHIN_MS };
                let after = Duration::from_millis(self.rng.below(within_ms)) + self.travel(own, other);
                let is_cut = self.is_cut(own, other) || self.is_cut(other, own);
                let at = (!is_cut).then(|| Instant::now() + after);
                self.wire(number).push(end, Packet::Reset, at);
            }
        }
    }
}
