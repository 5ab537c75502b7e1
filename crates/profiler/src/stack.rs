//! Walking the process's own stack, from a signal handler or from inside the allocator: no allocation, no lock, no
//! fault whatever the registers hold.

use crate::sys::{FRAMES_MAX, calls, unwind};

/// A frame larger than this is a register that was no frame pointer.
const FRAME_BYTES_MAX: u64 = 1 << 20;
const WINDOW_WORDS: usize = 256;
const PAGE_BYTES: u64 = 4096;

/// Whether this build has frame pointers everywhere. Without, a stack taken in the process is unwound by tables, and a
/// CPU sample knows little more than its leaf.
pub const FRAME_POINTERS: bool = cfg!(frame_pointers);

/// The addresses of one stack, leaf first; each but the first is a return address.
pub(crate) struct RawStack {
    addresses: [u64; FRAMES_MAX],
    len: usize,
}

impl RawStack {
    pub(crate) fn new() -> Self {
        RawStack { addresses: [0; FRAMES_MAX], len: 0 }
    }

    pub(crate) fn push(&mut self, address: u64) -> bool {
        let Some(free) = self.addresses.get_mut(self.len) else { return false };
        *free = address;
        self.len += 1;
        self.len < FRAMES_MAX
    }

    pub(crate) fn as_slice(&self) -> &[u64] {
        &self.addresses[..self.len]
    }

    /// The stack of the calling thread, from the caller on.
    #[inline(never)]
    pub(crate) fn capture() -> Self {
        let mut stack = RawStack::new();
        if FRAME_POINTERS {
            stack.walk(calls::frame_pointer());
        } else {
            unwind::unwind_by_tables(&mut |address| stack.push(address));
        }
        stack
    }

    /// The stack behind the two registers of an interrupted thread.
    pub(crate) fn of_registers(program_counter: u64, frame_pointer: u64) -> Self {
        let mut stack = RawStack::new();
        stack.push(program_counter);
        stack.walk(frame_pointer);
        stack
    }

    /// Follows the chain of saved frame pointers: at `[frame]` the caller's, at `[frame + 8]` the return address.
    fn walk(&mut self, mut frame: u64) {
        let mut window = Window::new();
        while frame.is_multiple_of(8) && frame >= PAGE_BYTES {
            let Some([next, return_address]) = window.pair_at(frame) else { return };
            if return_address < PAGE_BYTES || !self.push(return_address) {
                return;
            }
            // Stacks grow down: a caller's frame lies above.
            if next <= frame || next - frame > FRAME_BYTES_MAX {
                return;
            }
            frame = next;
        }
    }
}

/// A copied part of the stack, so that a chain costs a system call per page and not per frame.
struct Window {
    start: u64,
    words: [u64; WINDOW_WORDS],
    len: usize,
}

impl Window {
    fn new() -> Self {
        Window { start: 0, words: [0; WINDOW_WORDS], len: 0 }
    }

    fn pair_at(&mut self, address: u64) -> Option<[u64; 2]> {
        if !self.holds(address) {
            self.fill(address);
        }
        if !self.holds(address) {
            return None;
        }
        let at = ((address - self.start) / 8) as usize;
        Some([self.words[at], self.words[at + 1]])
    }

    fn holds(&self, address: u64) -> bool {
        address >= self.start && (address - self.start) / 8 + 2 <= self.len as u64
    }

    /// Up to the end of the page, since the next one may not be mapped; a pair across the edge is read alone.
    fn fill(&mut self, address: u64) {
        let words_to_edge = ((PAGE_BYTES - address % PAGE_BYTES) / 8) as usize;
        let wanted = words_to_edge.clamp(2, WINDOW_WORDS);
        self.start = address;
        self.len = calls::read_own_memory(address, &mut self.words[..wanted]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_followed_until_it_makes_no_sense() {
        let mut memory = vec![0u64; 64];
        let base = memory.as_ptr() as u64;
        memory[0] = base + 80;
        memory[1] = 0x1111_1111;
        memory[10] = base + 400;
        memory[11] = 0x2222_2222;
        memory[50] = base;
        memory[51] = 0x3333_3333;
        let stack = RawStack::of_registers(0x9999_9999, std::hint::black_box(&memory).as_ptr() as u64);
        assert_eq!(stack.as_slice(), [0x9999_9999, 0x1111_1111, 0x2222_2222, 0x3333_3333]);
    }

    #[test]
    fn wild_registers_are_harmless() {
        for frame in [0, 8, 4097, u64::MAX - 7, 1 << 63, 0x7fff_ffff_fff8] {
            assert_eq!(RawStack::of_registers(5, frame).as_slice(), [5], "{frame:#x}");
        }
    }

    #[test]
    fn the_own_stack_has_callers() {
        assert!(RawStack::capture().as_slice().len() > 3);
    }
}
