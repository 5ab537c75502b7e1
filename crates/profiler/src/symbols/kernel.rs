//! The kernel's symbols, if it shows them.

/// From here on addresses are the kernel's, on the architectures that we run on.
pub(super) const KERNEL_FROM: u64 = 1 << 63;

/// Address and name, by address.
pub(super) struct KernelSymbols(Vec<(u64, String)>);

impl KernelSymbols {
    /// Parses `/proc/kallsyms`. If addresses are hidden they are all zero, and nothing is known.
    pub(super) fn parse(text: &str) -> Self {
        let mut symbols: Vec<(u64, String)> = text.lines().filter_map(parse).collect();
        symbols.sort();
        KernelSymbols(symbols)
    }

    /// Whether the system shows none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn name(&self, address: u64) -> Option<&str> {
        let after = self.0.partition_point(|(start, _)| *start <= address);
        self.0[..after].last().map(|(_, name)| name.as_str())
    }
}

fn parse(line: &str) -> Option<(u64, String)> {
    let mut fields = line.split_ascii_whitespace();
    let address = u64::from_str_radix(fields.next()?, 16).ok()?;
    let is_code = matches!(fields.next()?, "t" | "T" | "w" | "W");
    (is_code && address >= KERNEL_FROM).then_some((address, fields.next()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_symbol_before_the_address_is_it() {
        let symbols = KernelSymbols::parse(
            "ffffffff81000000 T _text\nffffffff81000100 t schedule\nffffffff81000080 D data\n\
             0000000000000000 T hidden\nffffffffc0000000 t probe\t[module]\n",
        );
        assert_eq!(symbols.name(0xffff_ffff_8100_0090), Some("_text"));
        assert_eq!(symbols.name(0xffff_ffff_8100_0100), Some("schedule"));
        assert_eq!(symbols.name(0xffff_ffff_c000_0001), Some("probe"));
        assert_eq!(symbols.name(0xffff_ffff_8000_0000), None);
        assert!(!symbols.is_empty() && KernelSymbols::parse("0000000000000000 T hidden\n").is_empty());
    }
}
