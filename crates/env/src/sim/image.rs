use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

const PAGE_BYTES: u64 = 4096;

type Page = [u8; PAGE_BYTES as usize];

/// The bytes of a file. Pages never written are zeros and take no room; a clone shares its pages until one of the two
/// writes to them.
#[derive(Debug, Clone, Default)]
pub(super) struct Image {
    len: u64,
    pages: BTreeMap<u64, Arc<Page>>,
}

impl Image {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Fills `buffer`; the caller has seen to it that the image is long enough.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) {
        assert!(offset + buffer.len() as u64 <= self.len, "a read ends beyond the image");
        for piece in pieces(offset, buffer.len(), PAGE_BYTES) {
            let (page, start) = locate(offset + piece.start as u64);
            let target = &mut buffer[piece];
            match self.pages.get(&page) {
                Some(page) => target.copy_from_slice(&page[start..start + target.len()]),
                None => target.fill(0),
            }
        }
    }

    /// Writes and grows if needed.
    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        if bytes.is_empty() {
            return;
        }
        for piece in pieces(offset, bytes.len(), PAGE_BYTES) {
            let (page, start) = locate(offset + piece.start as u64);
            let source = &bytes[piece];
            let page = self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE_BYTES as usize]));
            Arc::make_mut(page)[start..start + source.len()].copy_from_slice(source);
        }
        self.len = self.len.max(offset + bytes.len() as u64);
    }

    /// Cuts off, or grows by zeros.
    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            drop(self.pages.split_off(&len.div_ceil(PAGE_BYTES)));
            let (page, start) = locate(len);
            if let Some(page) = self.pages.get_mut(&page) {
                // What was cut off must not come back when the file grows again.
                Arc::make_mut(page)[start..].fill(0);
            }
        }
        self.len = len;
    }

    /// A copy of everything.
    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len as usize];
        self.read(&mut bytes, 0);
        bytes
    }
}

fn locate(offset: u64) -> (u64, usize) {
    (offset / PAGE_BYTES, (offset % PAGE_BYTES) as usize)
}

/// Cuts the `len` bytes from `offset` on at the multiples of `unit`; answers ranges relative to `offset`.
pub(super) fn pieces(offset: u64, len: usize, unit: u64) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0_usize;
    std::iter::from_fn(move || {
        let room = unit - (offset + start as u64) % unit;
        let end = len.min(start + room as usize);
        let piece = start..end;
        start = end;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_across_pages_with_zeros_between() {
        let mut image = Image::default();
        let bytes: Vec<u8> = (0..10_000).map(|i| i as u8 | 1).collect();
        image.write(&bytes, 5000);
        assert_eq!(image.len(), 15_000);
        let all = image.to_vec();
        assert_eq!(&all[..5000], &[0; 5000][..]);
        assert_eq!(&all[5000..], &bytes[..]);
    }

    #[test]
    fn what_was_cut_off_reads_as_zero_after_growing() {
        for len in [0, 1, 4095, 4096, 4097, 8192, 9000] {
            let mut image = Image::default();
            image.write(&[7; 9000], 0);
            image.set_len(len);
            image.set_len(9000);
            let all = image.to_vec();
            let (kept, cut) = all.split_at(len as usize);
            assert!(kept.iter().all(|&byte| byte == 7) && cut.iter().all(|&byte| byte == 0), "cut at {len}");
        }
    }

    #[test]
    fn a_clone_keeps_its_bytes() {
        let mut image = Image::default();
        image.write(b"before", 0);
        let copy = image.clone();
        image.write(b"after!", 0);
        assert_eq!((copy.to_vec(), image.to_vec()), (b"before".to_vec(), b"after!".to_vec()));
    }

    #[test]
    fn pieces_end_at_the_multiples() {
        let cut = |offset, len| pieces(offset, len, 512).collect::<Vec<_>>();
        assert_eq!(cut(0, 0), Vec::<Range<usize>>::new());
        assert_eq!(cut(512, 512), vec![0..512]);
        assert_eq!(cut(500, 1000), vec![0..12, 12..524, 524..1000]);
    }
}
