//! The clients: a few keys, each with one or several writers and any number of readers. From time to time, many requests for
//! one key, or clients that contend for it: each asks again as soon as it is answered, so that much happens in sequence while a
//! single write is in flight.

use ladoga_env::Rng;
use ladoga_env::sim::SimRng;
use ladoga_model::{Replicas, Ttl, Version};

use crate::scenes::{Asked, SCENES, Scene};
use crate::values::{Key, number_of};
use crate::{LARGE_BYTES_MIN, Load};

const KEYS: usize = 10;
const WRITERS_MAX: usize = 3;
/// After how many requests a crowd comes, on average, how many more requests it asks at most, and how fast.
const CROWDS_EVERY: u64 = 10;
const CROWD_MAX: u64 = 6;
const CROWD_PAUSE_MS_MAX: u64 = 40;
/// How many clients contend for a key, and how often each asks.
const CONTENDERS_MIN: u64 = 3;
const CONTENDERS_MAX: u64 = 5;
const CONTENDER_REQUESTS_MAX: u64 = 8;
/// Keys that are written by what is there; all nodes have them, but for the last one.
const CONDITIONAL: [(&str, Kind); 5] = [
    ("counter", Kind::Counter),
    ("compared", Kind::Compared),
    ("compared too", Kind::Compared),
    ("mixed", Kind::Mixed),
    ("mixed on few", Kind::Mixed),
];
/// One value in so many expires, and every other one of these while clients look: the others later than everything that happens.
const EXPIRES_EVERY: u64 = 3;
const SHORT_TTL_MS: u64 = 20_000;
const LONG_TTL_MS: u64 = 3_600_000;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wish {
    Put {
        value: Vec<u8>,
        /// How long it is to live, if not for ever.
        ttl: Option<Ttl>,
    },
    Delete,
    Get,
    /// The value, if the key has this version still, which this request wrote; or if it has no value.
    PutIf {
        value: Vec<u8>,
        expected: Option<(Version, u64)>,
    },
    /// One more.
    Increment,
}

/// How a key is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// By values that take the place of whatever is there.
    Plain,
    /// By values that take the place of what their client saw last.
    Compared,
    /// By both, at the same time.
    Mixed,
    /// By increments.
    Counter,
}

pub(crate) struct KeyPlan {
    pub(crate) key: Key,
    pub(crate) kind: Kind,
    /// What a client saw last, and which request wrote it.
    last_seen: Option<(Version, u64)>,
    replicas: Replicas,
    /// Whether its requests do not say on how many nodes it is: on all, as many as these are.
    is_on_all: bool,
    /// Whether its clients ask nothing at present.
    is_paused: bool,
    /// Whether some requests need one replica's answer, and some the answers of all.
    is_mixed: bool,
    /// How many write it at the same time.
    writers_max: usize,
    /// The writes that are under way.
    writing: Vec<u64>,
}

impl KeyPlan {
    /// Whether its clients ask nothing at present.
    pub(crate) const fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Whether it is on all nodes, as many as these are.
    pub(crate) const fn is_on_all(&self) -> bool {
        self.is_on_all
    }

    /// On how many nodes it lives.
    pub(crate) const fn copies(&self) -> usize {
        self.replicas.from as usize
    }

    /// A write of a value, or what stands for one.
    fn write(&self, value: Vec<u8>, ttl: Option<Ttl>) -> Wish {
        match self.kind {
            Kind::Plain => Wish::Put { value, ttl },
            Kind::Mixed if number_of(&value).is_multiple_of(2) => Wish::Put { value, ttl: None },
            Kind::Compared | Kind::Mixed => Wish::PutIf { value, expected: self.last_seen },
            Kind::Counter => Wish::Increment,
        }
    }

    /// How many nodes the next request asks for.
    pub(crate) fn replicas(&self, rng: &SimRng) -> Replicas {
        let Replicas { ack, from } = self.replicas;
        let ack = match rng.below(6) {
            _ if !self.is_mixed => ack,
            0 => 1,
            1 => from,
            _ => ack,
        };
        Replicas { ack, from }
    }
}

/// A client that asks again as soon as it is answered.
struct Contender {
    index: usize,
    /// How often it is still going to ask.
    left: u64,
    under_way: Option<u64>,
}

pub(crate) struct Clients {
    pub(crate) keys: Vec<KeyPlan>,
    next: u64,
    /// The key that all clients ask for now, and how many requests are left of that.
    crowd: (usize, u64),
    contenders: Vec<Contender>,
    /// Of how long values live, apart: what else happens in a seed stays the same.
    life_rng: SimRng,
}

impl Clients {
    /// Keys with replicas of every kind; every other key has a majority of all. If the list of nodes is going to change, each key may
    /// have to be on all nodes.
    pub(crate) fn new(
        nodes: usize,
        rng: &SimRng,
        (seed, load): (u64, Load),
        are_all_on_all: bool,
    ) -> Clients {
        let plan = |n: usize| {
            let is_on_all = n.is_multiple_of(2) || are_all_on_all;
            let from = if is_on_all { nodes as u32 } else { 1 + rng.below(nodes as u64) as u32 };
            let majority = Replicas::majority_of(from);
            let ack = if n % 4 == 1 { 1 + rng.below(u64::from(from)) as u32 } else { majority.ack };
            KeyPlan {
                key: format!("key{n}").into_bytes(),
                kind: Kind::Plain,
                last_seen: None,
                replicas: Replicas { ack, from },
                // Of those that are on all, some requests say so by a number, which stays.
                is_on_all: n.is_multiple_of(4) || are_all_on_all,
                is_paused: false,
                is_mixed: n % 5 == 1,
                writers_max: if n.is_multiple_of(3) { WRITERS_MAX } else { 1 },
                writing: Vec::new(),
            }
        };
        let of_majority = |name: &str, kind| KeyPlan {
            key: name.as_bytes().to_vec(),
            kind,
            last_seen: None,
            replicas: Replicas::majority_of(nodes as u32),
            is_on_all: true,
            is_paused: false,
            is_mixed: false,
            writers_max: WRITERS_MAX,
            writing: Vec::new(),
        };
        let keys: Vec<KeyPlan> = match load {
            Load::Plain => (0..KEYS).map(plan).collect(),
            Load::Conditional | Load::Relisted => {
                let mut conditional = CONDITIONAL.map(|(name, kind)| of_majority(name, kind));
                let few = Replicas::majority_of(nodes as u32 / 2 + 1);
                if !are_all_on_all {
                    let on_few = &mut conditional[CONDITIONAL.len() - 1];
                    (on_few.replicas, on_few.is_on_all) = (few, false);
                }
                (0..KEYS).map(plan).chain(conditional).collect()
            }
            Load::Targeted => {
                let of_scene = |scene: Scene| {
                    let replicas = Replicas::majority_of(scene.copies());
                    KeyPlan { replicas, ..of_majority(scene.key(), Kind::Mixed) }
                };
                SCENES.map(of_scene).into()
            }
        };
        let life_rng = SimRng::new(seed ^ 0x006c_6976_6573);
        Clients { keys, next: 0, crowd: (0, 0), contenders: Vec::new(), life_rng }
    }

    /// How long the next value lives.
    fn ttl(&self) -> Option<Ttl> {
        let ms = match self.life_rng.below(2 * EXPIRES_EVERY) {
            0 => 1 + self.life_rng.below(SHORT_TTL_MS),
            1 => LONG_TTL_MS + self.life_rng.below(LONG_TTL_MS),
            _ => return None,
        };
        Ttl::of_ms(ms)
    }

    /// A small write of this key, unless as many as may be are under way.
    pub(crate) fn next_write(&mut self, index: usize) -> Option<(u64, Wish)> {
        let (number, ttl) = (self.next_number(), self.ttl());
        let plan = &mut self.keys[index];
        (plan.writing.len() < plan.writers_max).then(|| {
            plan.writing.push(number);
            (number, plan.write(number.to_le_bytes().to_vec(), ttl))
        })
    }

    /// A deletion of this key, unless as many writes as may be are under way.
    pub(crate) fn next_deletion(&mut self, index: usize) -> Option<(u64, Wish)> {
        let number = self.next_number();
        let plan = &mut self.keys[index];
        let may_be = plan.kind == Kind::Plain && plan.writing.len() < plan.writers_max;
        may_be.then(|| {
            plan.writing.push(number);
            (number, Wish::Delete)
        })
    }

    /// The pause before the next request. In a crowd, a write meets another one of which its node has not heard yet.
    pub(crate) fn pause_ms(&self, rng: &SimRng) -> u64 {
        if self.crowd.1 > 0 { rng.below(CROWD_PAUSE_MS_MAX) } else { 20 + rng.below(1400) }
    }

    /// The number of the next request.
    pub(crate) const fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The next request: of which key, under which number, what.
    pub(crate) fn next(&mut self, rng: &SimRng) -> (usize, u64, Wish) {
        if self.crowd.1 > 0 {
            self.crowd.1 -= 1;
        } else {
            let requests = if rng.below(CROWDS_EVERY) == 0 { 1 + rng.below(CROWD_MAX) } else { 0 };
            self.crowd = (rng.below(self.keys.len() as u64) as usize, requests);
        }
        let index = self.crowd.0;
        // A large value takes several round trips: in a crowd, much happens during that time.
        let one_is_large_of = if self.crowd.1 > 0 { 2 } else { 4 };
        let (number, wish) = self.next_of(index, one_is_large_of, rng);
        (index, number, wish)
    }

    fn next_of(&mut self, index: usize, one_is_large_of: u64, rng: &SimRng) -> (u64, Wish) {
        let (number, ttl) = (self.next_number(), self.ttl());
        let plan = &mut self.keys[index];
        let is_write = plan.writing.len() < plan.writers_max && rng.below(5) < 3;
        let wish = match rng.below(4) {
            _ if !is_write => Wish::Get,
            0 if matches!(plan.kind, Kind::Plain | Kind::Mixed) => Wish::Delete,
            _ => {
                let mut value = number.to_le_bytes().to_vec();
                let bytes = if rng.below(one_is_large_of) == 0 {
                    LARGE_BYTES_MIN + rng.below(4096) as usize
                } else {
                    8 + rng.below(300) as usize
                };
                value.resize(bytes, number as u8);
                plan.write(value, ttl)
            }
        };
        if is_write {
            plan.writing.push(number);
        }
        (number, wish)
    }

    /// What a client asks for in a scene, about its key.
    pub(crate) fn next_of_scene(&mut self, index: usize, asked: Asked) -> (u64, Wish) {
        let number = self.next_number();
        let value = number.to_le_bytes().to_vec();
        let wish = match asked {
            Asked::Put => Wish::Put { value, ttl: None },
            Asked::PutForAnHour => Wish::Put { value, ttl: Ttl::of_ms(LONG_TTL_MS) },
            Asked::PutForTwoSeconds => Wish::Put { value, ttl: Ttl::of_ms(2_000) },
            Asked::PutIf => Wish::PutIf { value, expected: self.keys[index].last_seen },
            Asked::Increment => Wish::Increment,
            Asked::Get => Wish::Get,
        };
        (number, wish)
    }

    /// There are so many nodes now: what is on all is on these.
    pub(crate) fn relist(&mut self, nodes: usize) {
        for plan in &mut self.keys {
            let Replicas { ack, from } = plan.replicas;
            let majority = Replicas::majority_of(nodes as u32);
            let has_majority = ack == Replicas::majority_of(from).ack;
            if !plan.is_on_all && from <= majority.from {
                continue;
            }
            let others = Replicas { ack: ack.min(majority.from), ..majority };
            plan.replicas = if has_majority { majority } else { others };
        }
    }

    /// Nothing is asked of keys that are on fewer nodes than all, or it is again. Answers whether there are such keys.
    pub(crate) fn pause_few(&mut self, nodes: usize, is_paused: bool) -> bool {
        let mut is_any = false;
        for plan in self.keys.iter_mut().filter(|plan| plan.copies() < nodes) {
            (plan.is_paused, is_any) = (is_paused, true);
        }
        is_any
    }

    /// From now on, several clients contend for a key that has several writers.
    pub(crate) fn contend(&mut self, rng: &SimRng) {
        let contended: Vec<usize> = (0..self.keys.len())
            .filter(|&index| self.keys[index].writers_max > 1 && self.keys[index].copies() > 1)
            .collect();
        let index = contended[rng.below(contended.len() as u64) as usize];
        let count = CONTENDERS_MIN + rng.below(CONTENDERS_MAX - CONTENDERS_MIN + 1);
        let contender = |_| Contender { index, left: 1 + rng.below(CONTENDER_REQUESTS_MAX), under_way: None };
        self.contenders = (0..count).map(contender).collect();
    }

    /// Whether a client that contends is to ask now.
    pub(crate) fn is_one_free(&self) -> bool {
        self.contenders.iter().any(|contender| contender.under_way.is_none())
    }

    /// What a client asks that contends and is to ask now: of which key, under which number, what.
    pub(crate) fn next_of_contender(&mut self, rng: &SimRng) -> Option<(usize, u64, Wish)> {
        self.contenders.retain(|contender| contender.left > 0 || contender.under_way.is_some());
        let free = self.contenders.iter().position(|contender| contender.under_way.is_none())?;
        let index = self.contenders[free].index;
        let (number, wish) = self.next_of(index, 6, rng);
        let contender = &mut self.contenders[free];
        contender.left -= 1;
        contender.under_way = Some(number);
        Some((index, number, wish))
    }

    /// Ends the contention.
    pub(crate) fn calm_down(&mut self) {
        self.contenders.clear();
    }

    /// A client saw what a key has, and which request wrote it; or that it has no value.
    pub(crate) fn saw(&mut self, key: &Key, seen: Option<(Version, u64)>) {
        if let Some(plan) = self.keys.iter_mut().find(|plan| plan.key == *key) {
            plan.last_seen = seen;
        }
    }

    /// A request ended, whatever became of it.
    pub(crate) fn ended(&mut self, number: u64) {
        for plan in &mut self.keys {
            plan.writing.retain(|&writing| writing != number);
        }
        for contender in &mut self.contenders {
            contender.under_way = contender.under_way.filter(|&under_way| under_way != number);
        }
    }
}
