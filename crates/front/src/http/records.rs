//! How ranges are written.

use ladoga_model::Stamp;
use ladoga_service::RecordFormat;

use super::framing::Framing;
use super::json_records::JsonRecords;

/// How the entities of a range are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Telling {
    pub(crate) framing: Framing,
    /// As lines of JSON.
    pub(crate) is_json: bool,
    /// Not only the keys.
    pub(crate) has_values: bool,
    /// Not the entities themselves.
    pub(crate) is_count: bool,
}

impl Telling {
    /// How that is written.
    pub(crate) fn format(self) -> Box<dyn RecordFormat> {
        let Telling { framing, is_json, has_values, is_count } = self;
        if is_count {
            Box::new(CountedRecords { framing, is_json, count: 0 })
        } else if is_json {
            Box::new(JsonRecords::new(framing, has_values))
        } else {
            Box::new(KeyValueRecords { framing, has_values })
        }
    }

    /// What may be written between two records to show that the work goes on, if anything may.
    pub(crate) const fn alive(self) -> &'static [u8] {
        match (self.is_json, self.framing) {
            (true, Framing::Chunked) => b"1\r\n\n\r\n",
            (true, Framing::Plain) => b"\n",
            (false, _) => b"",
        }
    }
}

/// Records of a key, a newline, and the value, if values are wanted.
struct KeyValueRecords {
    framing: Framing,
    has_values: bool,
}

impl KeyValueRecords {
    fn begin(&self, out: &mut Vec<u8>, key: &[u8], value_bytes: u64) {
        self.framing.begin(out, key.len() as u64 + 1 + value_bytes);
        out.extend_from_slice(key);
        out.push(b'\n');
    }
}

impl RecordFormat for KeyValueRecords {
    fn wants_values(&self) -> bool {
        self.has_values
    }

    fn record(&mut self, out: &mut Vec<u8>, key: &[u8], _: Stamp, value: &[u8]) {
        let value = if self.has_values { value } else { &[] };
        self.begin(out, key, value.len() as u64);
        out.extend_from_slice(value);
        self.framing.end(out);
    }

    fn begin_large(&mut self, out: &mut Vec<u8>, key: &[u8], _: Stamp, value_bytes: u64) {
        self.begin(out, key, value_bytes);
    }

    fn large(&mut self, out: &mut Vec<u8>, bytes: &[u8]) {
        out.extend_from_slice(bytes);
    }

    fn end_large(&mut self, out: &mut Vec<u8>) {
        self.framing.end(out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.framing.last(out);
    }
}

/// Only how many there are.
struct CountedRecords {
    framing: Framing,
    is_json: bool,
    count: u64,
}

impl RecordFormat for CountedRecords {
    fn wants_values(&self) -> bool {
        false
    }

    fn record(&mut self, _: &mut Vec<u8>, _: &[u8], _: Stamp, _: &[u8]) {
        self.count += 1;
    }

    fn begin_large(&mut self, _: &mut Vec<u8>, _: &[u8], _: Stamp, _: u64) {
        self.count += 1;
    }

    fn large(&mut self, _: &mut Vec<u8>, _: &[u8]) {}

    fn end_large(&mut self, _: &mut Vec<u8>) {}

    fn end(&mut self, out: &mut Vec<u8>) {
        let count = self.count;
        let line = if self.is_json { format!("{{\"count\":{count}}}\n") } else { format!("{count}\n") };
        self.framing.whole(out, line.as_bytes());
        self.framing.last(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(telling: Telling, records: &[(&[u8], &[u8])]) -> String {
        let (mut out, mut format) = (Vec::new(), telling.format());
        for (key, value) in records {
            format.record(&mut out, key, Stamp::default(), value);
        }
        format.end(&mut out);
        String::from_utf8(out).expect("text")
    }

    const PLAIN: Telling =
        Telling { framing: Framing::Chunked, is_json: false, has_values: true, is_count: false };

    #[test]
    fn a_record_is_one_chunk() {
        let records: [(&[u8], &[u8]); 2] = [(b"key", b"value of bytes"), (b"k", b"")];
        assert_eq!(written(PLAIN, &records), "12\r\nkey\nvalue of bytes\r\n2\r\nk\n\r\n0\r\n\r\n");
        let keys = Telling { has_values: false, ..PLAIN };
        assert_eq!(written(keys, &records), "4\r\nkey\n\r\n2\r\nk\n\r\n0\r\n\r\n");
        let old = Telling { framing: Framing::Plain, ..PLAIN };
        assert_eq!(written(old, &records), "key\nvalue of bytesk\n");
    }

    #[test]
    fn a_count_is_a_line() {
        let records: [(&[u8], &[u8]); 2] = [(b"key", b"value"), (b"k", b"")];
        let count = Telling { is_count: true, ..PLAIN };
        assert_eq!(written(count, &records), "2\r\n2\n\r\n0\r\n\r\n");
        assert_eq!(
            written(Telling { framing: Framing::Plain, is_json: true, ..count }, &records),
            "{\"count\":2}\n"
        );
    }

    #[test]
    fn a_large_value_is_one_chunk() {
        let (mut out, mut format) = (Vec::new(), PLAIN.format());
        format.begin_large(&mut out, b"k", Stamp::default(), 4);
        format.large(&mut out, b"ab");
        format.large(&mut out, b"cd");
        format.end_large(&mut out);
        assert_eq!(out, b"6\r\nk\nabcd\r\n");
    }
}
