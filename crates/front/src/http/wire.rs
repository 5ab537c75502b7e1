use ladoga_service::RecordFormat;

/// What ends a chunked body.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Records as chunks: each one key, newline, value.
pub(crate) const CHUNKED_RECORDS: RecordFormat = RecordFormat {
    begin: |out, key, value_bytes| {
        out.extend_from_slice(format!("{:x}\r\n", key.len() as u64 + 1 + value_bytes).as_bytes());
        begin_record(out, key);
    },
    end: |out| out.extend_from_slice(b"\r\n"),
};

/// Records one after the other, for clients that know no chunks.
pub(crate) const PLAIN_RECORDS: RecordFormat =
    RecordFormat { begin: |out, key, _| begin_record(out, key), end: |_| {} };

fn begin_record(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(key);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_chunk() {
        let mut out = Vec::new();
        (CHUNKED_RECORDS.begin)(&mut out, b"key", 14);
        out.extend_from_slice(b"value of bytes");
        (CHUNKED_RECORDS.end)(&mut out);
        assert_eq!(out, b"12\r\nkey\nvalue of bytes\r\n");
    }
}
