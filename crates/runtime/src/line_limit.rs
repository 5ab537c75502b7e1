use std::cell::Cell;

const SECOND_NS: u64 = 1_000_000_000;

/// How many lines of one kind are written within a second. Others decide how often there is something to tell, and must not fill the
/// disk by that. What is left out is counted.
#[derive(Debug)]
pub struct LineLimit {
    lines_per_second_max: u32,
    /// Which second it was at the last line, and how many lines it has.
    second: Cell<(u64, u32)>,
    left_out: Cell<u64>,
}

impl LineLimit {
    /// At most so many.
    pub const fn new(lines_per_second_max: u32) -> LineLimit {
        LineLimit { lines_per_second_max, second: Cell::new((0, 0)), left_out: Cell::new(0) }
    }

    /// Takes place for one more line; if this second has none, the line counts as left out.
    pub fn admit(&self, now_ns: u64) -> bool {
        let now = now_ns / SECOND_NS;
        let (second, lines) = self.second.get();
        let lines = if second == now { lines } else { 0 };
        let is_admitted = lines < self.lines_per_second_max;
        if is_admitted {
            self.second.set((now, lines + 1));
        } else {
            self.left_out.set(self.left_out.get() + 1);
        }
        is_admitted
    }

    /// How many lines were left out, once there may be others again. Who asks tells it.
    pub fn take_left_out(&self, now_ns: u64) -> Option<u64> {
        let is_due = self.left_out.get() > 0 && self.second.get().0 != now_ns / SECOND_NS;
        is_due.then(|| self.left_out.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many_lines_and_the_next_says_how_many_were_left_out() {
        let limit = LineLimit::new(10);
        let admitted = (0..13).filter(|_| limit.admit(SECOND_NS)).count();
        assert_eq!((admitted, limit.take_left_out(2 * SECOND_NS - 1)), (10, None));
        assert_eq!(limit.take_left_out(2 * SECOND_NS), Some(3));
        assert_eq!(limit.take_left_out(2 * SECOND_NS), None, "it is told once");
        assert!(limit.admit(2 * SECOND_NS));
        assert_eq!(limit.take_left_out(3 * SECOND_NS), None, "nothing was left out");
    }
}
