//! Everything that there is, for tests: up to five replicas.

use ladoga_model::Replicas;

/// Every `ack` of every `from` up to five.
pub(crate) fn each_replicas(mut visit: impl FnMut(Replicas)) {
    for from in 1..=5 {
        for ack in 1..=from {
            visit(Replicas { ack, from });
        }
    }
}

/// Every order of the numbers below `count`.
pub(crate) fn each_order(count: usize, mut visit: impl FnMut(&[usize])) {
    fn extend(order: &mut Vec<usize>, count: usize, visit: &mut impl FnMut(&[usize])) {
        if order.len() == count {
            return visit(order);
        }
        for next in 0..count {
            if !order.contains(&next) {
                order.push(next);
                extend(order, count, visit);
                order.pop();
            }
        }
    }
    extend(&mut Vec::with_capacity(count), count, &mut visit);
}
