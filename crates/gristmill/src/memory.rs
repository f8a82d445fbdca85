//! Memory in large pages: tables of lines, and advice for long lists.
//!
//! The system hands out memory in pages of 4 KiB and takes about a microsecond for each, at its first
//! use. That is a tenth of the time of encoding a long text, and a large table misses the processor's
//! own table of pages as well. Where the system has pages of 2 MiB, both go away: [`prefer_large_pages`]
//! asks for them. It is advice, and nothing depends on its being taken.

#![cfg_attr(
    target_os = "linux",
    expect(
        unsafe_code,
        reason = "a system call for which no safe wrapper covers spare room"
    )
)]

/// A large page.
const LARGE: usize = 1 << 21;

/// A line of the processor's cache: four words of 16 bytes.
pub(crate) type Line = [Word; 4];
/// A word of a line.
pub(crate) type Word = [u64; 2];

/// Ask the system for large pages under `memory`, which has not been used yet.
pub(crate) fn prefer_large_pages<T>(memory: &mut [T]) {
    let bytes = size_of_val(memory);
    if bytes < LARGE {
        return;
    }
    #[cfg(target_os = "linux")]
    {
        const PAGE: usize = 1 << 12;
        let start = memory.as_mut_ptr().cast::<u8>();
        let skipped = start.align_offset(PAGE);
        if skipped < bytes {
            // SAFETY: the range lies in memory that is ours, and this advice changes no content.
            unsafe {
                libc::madvise(
                    start.add(skipped).cast(),
                    (bytes - skipped) / PAGE * PAGE,
                    libc::MADV_HUGEPAGE,
                );
            }
        }
    }
}

/// A table of numbers, zeros at first. It costs memory only where it is written to.
pub(crate) struct Table<T> {
    cells: Vec<T>,
    /// Where the first one is.
    from: usize,
    count: usize,
}

impl<T: Copy + Default> Table<T> {
    /// So many zeros, which begin at a line of the processor's cache, or at a page if they fill one.
    pub(crate) fn new(count: usize) -> Table<T> {
        let bytes = count * size_of::<T>();
        let align = bytes
            .next_power_of_two()
            .clamp(2 * size_of::<Line>(), LARGE);
        let spare = align / size_of::<T>();
        let mut cells = vec![T::default(); count + spare];
        // What cannot be aligned is only slower.
        let from = cells.as_ptr().align_offset(align);
        let from = if from <= spare { from } else { 0 };
        prefer_large_pages(&mut cells[from..from + count]);
        Table { cells, from, count }
    }

    /// All of it.
    #[inline(always)]
    pub(crate) fn get(&self) -> &[T] {
        let cells = self.cells.get(self.from..).unwrap_or_default();
        cells.get(..self.count).unwrap_or_default()
    }

    /// All of it, to be written to.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self) -> &mut [T] {
        let cells = self.cells.get_mut(self.from..).unwrap_or_default();
        cells.get_mut(..self.count).unwrap_or_default()
    }
}

/// A table of lines.
pub(crate) struct Lines(Table<Word>);

impl Lines {
    /// So many lines.
    pub(crate) fn new(count: usize) -> Lines {
        Lines(Table::new(4 * count))
    }

    /// All lines.
    #[inline(always)]
    pub(crate) fn get(&self) -> &[Line] {
        self.0.get().as_chunks().0
    }

    /// All lines, to be written to.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self) -> &mut [Line] {
        self.0.get_mut().as_chunks_mut().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_zeros_side_by_side() {
        for count in [1, 2, 64, 1 << 15, (1 << 15) + 1, 1 << 17] {
            let mut lines = Lines::new(count);
            assert_eq!(lines.get().len(), count);
            assert!(lines.get().iter().all(|line| *line == Line::default()));
            assert!(lines.get().as_ptr().addr().is_multiple_of(64));
            lines.get_mut()[count - 1] = [[7; 2]; 4];
            assert_eq!(lines.get()[count - 1], [[7; 2]; 4]);
        }
    }

    #[test]
    fn advice_may_be_given_for_any_memory() {
        prefer_large_pages::<u32>(&mut []);
        let mut list: Vec<u32> = Vec::with_capacity(3 << 20);
        prefer_large_pages(list.spare_capacity_mut());
        list.extend(0..1000);
        assert_eq!(list[999], 999);
    }
}
