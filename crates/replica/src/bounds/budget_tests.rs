use super::super::SessionAccount;
use super::*;

const BYTES: usize = 8 << 20;

fn accounts(budget: &Arc<SessionBudget>, count: usize) -> Vec<SessionAccount> {
    let greeted = |account: SessionAccount| account.greeted().then_some(account);
    (0..count).map(|_| greeted(budget.open()).expect("one more")).collect()
}

fn leases(budget: &SessionBudget) -> usize {
    budget.shared_bytes / SESSION_LEASE_BYTES
}

#[test]
fn there_are_only_so_many_connections() {
    let budget = SessionBudget::new(BYTES);
    let mut all = accounts(&budget, BYTES / OWN_SHARE / SESSION_OWN_BYTES / 4 * 3);
    let one_more = budget.open();
    assert!(budget.is_full() && !one_more.greeted());
    all.pop();
    assert!(!budget.is_full() && one_more.greeted() && one_more.greeted());
    assert!(budget.is_full());
}

#[test]
fn the_oldest_of_those_that_do_not_greet_makes_room() {
    let budget = SessionBudget::new(BYTES);
    let has_to_go = |account: &SessionAccount| account.has_to_go(Waker::noop());
    let strangers: Vec<_> = (0..budget.strangers_max).map(|_| budget.open()).collect();
    assert!(strangers[0].greeted() && !strangers.iter().any(has_to_go));
    let _in_its_place = budget.open();
    assert!(!strangers.iter().any(has_to_go));
    let _one_more = budget.open();
    let gone: Vec<usize> = (0..strangers.len()).filter(|&index| has_to_go(&strangers[index])).collect();
    assert_eq!(gone, [1]);
}

#[test]
fn what_is_its_own_a_connection_has_whatever_the_others_do() {
    let budget = SessionBudget::new(BYTES);
    let all = accounts(&budget, leases(&budget) + 2);
    let task = Waker::noop();
    let with_lease = all.iter().filter(|account| account.reserve(SESSION_OWN_BYTES + 1, task)).count();
    assert_eq!(with_lease, leases(&budget));
    assert!(all.iter().all(|account| account.reserve(SESSION_OWN_BYTES, task)));
    assert!(all[0].is_contended() && all[leases(&budget)].is_waiting());
}

#[test]
fn who_waited_the_longest_is_next() {
    let budget = SessionBudget::new(BYTES);
    let all = accounts(&budget, leases(&budget) + 2);
    let reserve = |account: &SessionAccount| account.reserve(SESSION_LEASE_BYTES, Waker::noop());
    all.iter().for_each(|account| _ = reserve(account));
    let (first, second) = (&all[leases(&budget)], &all[leases(&budget) + 1]);
    all[0].release(SESSION_OWN_BYTES);
    assert!(!reserve(second) && reserve(first), "in turn");
    assert!(!reserve(&all[0]), "behind the second");
    all[1].release(0);
    assert!(reserve(second) && !reserve(&all[0]));
    all[2].release(0);
    assert!(reserve(&all[0]) && !first.is_contended());
}

/// It stayed in the queue, and never took what it was granted: four such connections left nothing for all the others.
#[test]
fn who_goes_on_without_a_lease_leaves_it_to_others() {
    let budget = SessionBudget::new(BYTES);
    let all = accounts(&budget, leases(&budget) + 2);
    let reserve = |account: &SessionAccount| account.reserve(SESSION_LEASE_BYTES, Waker::noop());
    let with_less = |account: &SessionAccount| account.reserve(SESSION_OWN_BYTES, Waker::noop());
    all.iter().for_each(|account| _ = reserve(account));
    let (first, second) = (&all[leases(&budget)], &all[leases(&budget) + 1]);
    // One that was granted its lease.
    all[0].release(0);
    assert!(with_less(first) && first.is_waiting());
    first.waits_no_more();
    assert!(!first.is_waiting() && !first.is_contended());
    assert!(reserve(second), "what the first one left");
    // One that is still in the queue.
    assert!(!reserve(first) && !reserve(&all[0]) && with_less(first));
    first.waits_no_more();
    first.waits_no_more();
    all[1].release(0);
    assert!(reserve(&all[0]) && !all[0].is_contended());
    // It queues again like any other.
    assert!(!reserve(first));
    all[2].release(0);
    assert!(reserve(first));
    drop(all);
    assert_eq!(budget.taken_bytes(), 0);
}

#[test]
fn one_connection_leaves_most_to_the_others() {
    let budget = SessionBudget::new(64 << 20);
    let greedy = budget.open();
    let step = 320 << 10;
    let most = (1..1_000).take_while(|count| greedy.reserve(count * step, Waker::noop())).count() * step;
    assert!(most > SESSION_LEASE_BYTES && most <= budget.session_bytes_max + SESSION_OWN_BYTES);
    assert!(budget.taken_bytes() * SESSION_SHARE <= budget.shared_bytes);
    greedy.release(0);
    assert_eq!(budget.taken_bytes(), 0);
}

#[test]
fn who_has_had_a_lease_for_long_is_told_where_others_wait() {
    let budget = SessionBudget::new(BYTES);
    let all = accounts(&budget, leases(&budget) + 1);
    let reserve = |account: &SessionAccount| account.reserve(SESSION_LEASE_BYTES, Waker::noop());
    assert!(reserve(&all[0]));
    all[0].time_passes();
    assert!(!all[0].yields(), "nobody waits");
    all.iter().for_each(|account| _ = reserve(account));
    all[0].time_passes();
    assert!(all[0].yields());
    all[0].release(0);
    assert!(!all[0].yields() && !reserve(&all[0]) && reserve(&all[leases(&budget)]));
}

#[test]
fn what_serves_repair_has_its_own_room_one_thing_for_each_connection() {
    let budget = SessionBudget::new(BYTES);
    let repairs = BYTES / REPAIR_SHARE / REPAIR_BYTES;
    let all = accounts(&budget, repairs + 1);
    assert!(all[0].repair_begins() && !all[0].repair_begins());
    assert_eq!(all[1..].iter().filter(|account| account.repair_begins()).count(), repairs - 1);
    all[0].answers_are_written();
    assert!(!all[repairs].repair_begins(), "it is not answered");
    all[0].repair_is_answered();
    all[0].answers_are_written();
    all[0].answers_are_written();
    assert!(all[repairs].repair_begins() && !all[0].repair_begins());
}

#[test]
fn who_goes_gives_everything_back() {
    let budget = SessionBudget::new(BYTES);
    let mut all = accounts(&budget, leases(&budget) + 2);
    let reserve = |account: &SessionAccount| account.reserve(SESSION_LEASE_BYTES, Waker::noop());
    all.iter().for_each(|account| _ = reserve(account));
    // One connection that waits, and one that was granted its lease and has not noticed.
    drop(all.pop());
    all[0].release(0);
    drop(all);
    assert_eq!((budget.taken_bytes(), budget.sessions()), (0, 0));
}
