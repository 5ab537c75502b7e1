/// RFC 3986, 3.2.2 and 3.2.3: a name or an address, and perhaps a port.
pub(super) fn is_of_host(byte: u8) -> bool {
    const OF_HOST: [bool; 256] = alphanumeric_and(b"-._~%!$&'()*+,;=:[]");
    OF_HOST[usize::from(byte)]
}

/// RFC 3986, 3.3: what a path may have. A query may have it, too, and question marks.
pub(super) fn is_of_path(byte: u8) -> bool {
    const OF_PATH: [bool; 256] = alphanumeric_and(b"-._~%!$&'()*+,;=:@/");
    OF_PATH[usize::from(byte)]
}

/// Which bytes are ASCII letters, digits, or one of these. A table, since each byte of each head is looked up.
const fn alphanumeric_and(others: &[u8]) -> [bool; 256] {
    let (mut is_one, mut byte, mut at) = ([false; 256], 0, 0);
    while byte < is_one.len() {
        is_one[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    while at < others.len() {
        is_one[others[at] as usize] = true;
        at += 1;
    }
    is_one
}
