//! pprof's `profile.proto`, gzipped. Written by hand: eight messages of numbers and strings.
//!
//! ```text
//! Profile   1 sample_type* 2 sample* 4 location* 5 function* 6 string_table* 9 time_nanos 10 duration_nanos
//!           11 period_type 12 period 13 comment* 14 default_sample_type
//! ValueType 1 type 2 unit            Sample   1 location_id[] 2 value[] 3 label*
//! Location  1 id 4 line*             Function 1 id 2 name 3 system_name 4 filename
//! Line      1 function_id 2 line     Label    1 key 2 str
//! ```

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::profile::Frame;
use crate::{Kind, Profile, ProfileError};

pub(super) fn render(profile: &Profile) -> Result<Vec<u8>, ProfileError> {
    let failed = |error: std::io::Error| ProfileError::Render { what: "pprof", reason: error.to_string() };
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&encode(profile)).map_err(failed)?;
    encoder.finish().map_err(failed)
}

fn encode(profile: &Profile) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.strings.id("");
    let [count_type, weight_type] = value_types(profile.kind);
    for (name, unit) in [count_type, weight_type] {
        let value_type = writer.value_type(name, unit);
        writer.out.message(1, &value_type);
    }
    writer.samples(profile);
    writer.out.number(9, profile.started_unix_ns);
    writer.out.number(10, profile.duration_ns);
    let period_type = writer.value_type(weight_type.0, weight_type.1);
    writer.out.message(11, &period_type);
    writer.out.number(12, profile.period);
    for note in &profile.notes {
        let note = writer.strings.id(note);
        writer.out.number(13, note);
    }
    let default_type = writer.strings.id(weight_type.0);
    writer.out.number(14, default_type);
    for text in &writer.strings.list {
        writer.out.bytes(6, text.as_bytes());
    }
    writer.out.0
}

/// The names that Go's own profiles use, so that its tools know them.
fn value_types(kind: Kind) -> [(&'static str, &'static str); 2] {
    match kind {
        Kind::Cpu => [("samples", "count"), ("cpu", "nanoseconds")],
        Kind::Alloc => [("alloc_objects", "count"), ("alloc_space", "bytes")],
        Kind::Lock => [("contentions", "count"), ("delay", "nanoseconds")],
    }
}

#[derive(Default)]
struct Writer {
    out: Message,
    strings: Strings,
    locations: HashMap<Frame, u64>,
    functions: HashMap<(String, u64), u64>,
}

impl Writer {
    fn value_type(&mut self, name: &str, unit: &str) -> Message {
        let mut message = Message::default();
        message.number(1, self.strings.id(name));
        message.number(2, self.strings.id(unit));
        message
    }

    /// The format has no timestamps: equal stacks of a thread are one sample.
    fn samples(&mut self, profile: &Profile) {
        let mut sums = BTreeMap::new();
        for sample in &profile.samples {
            let (count, weight) = sums.entry((sample.thread, sample.stack)).or_insert((0, 0));
            *count += sample.count;
            *weight += sample.weight;
        }
        let key = self.strings.id("thread");
        for ((thread, stack), (count, weight)) in sums {
            let locations: Vec<u64> =
                profile.stacks.frames(stack).map(|frame| self.location(frame)).collect();
            let mut label = Message::default();
            label.number(1, key);
            label.number(2, self.strings.id(&profile.threads[thread as usize].name));
            let mut sample = Message::default();
            sample.numbers(1, &locations);
            sample.numbers(2, &[count, weight]);
            sample.message(3, &label);
            self.out.message(2, &sample);
        }
    }

    fn location(&mut self, frame: &Frame) -> u64 {
        if let Some(known) = self.locations.get(frame) {
            return *known;
        }
        let id = self.locations.len() as u64 + 1;
        self.locations.insert(frame.clone(), id);
        let mut line = Message::default();
        line.number(1, self.function(frame));
        line.number(2, u64::from(frame.line));
        let mut location = Message::default();
        location.number(1, id);
        location.message(4, &line);
        self.out.message(4, &location);
        id
    }

    fn function(&mut self, frame: &Frame) -> u64 {
        let file = self.strings.id(frame.file.as_deref().unwrap_or(""));
        let next = self.functions.len() as u64 + 1;
        let name = frame.function.to_string();
        if let Some(known) = self.functions.get(&(name.clone(), file)) {
            return *known;
        }
        let text = self.strings.id(&name);
        self.functions.insert((name, file), next);
        let mut function = Message::default();
        function.number(1, next);
        function.number(2, text);
        function.number(3, text);
        function.number(4, file);
        self.out.message(5, &function);
        next
    }
}

#[derive(Default)]
struct Strings {
    ids: HashMap<String, u64>,
    list: Vec<String>,
}

impl Strings {
    fn id(&mut self, text: &str) -> u64 {
        if let Some(known) = self.ids.get(text) {
            return *known;
        }
        let id = self.list.len() as u64;
        self.list.push(text.to_owned());
        self.ids.insert(text.to_owned(), id);
        id
    }
}

/// The wire format: a tag of field number and kind, then a varint, or a length and bytes.
#[derive(Default)]
struct Message(Vec<u8>);

const KIND_VARINT: u64 = 0;
const KIND_BYTES: u64 = 2;

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Zero is what an absent field means.
    fn number(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3 | KIND_VARINT);
            self.varint(value);
        }
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | KIND_BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, message: &Message) {
        self.bytes(field, &message.0);
    }

    fn numbers(&mut self, field: u64, values: &[u64]) {
        let mut packed = Message::default();
        values.iter().for_each(|value| packed.varint(*value));
        self.message(field, &packed);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::render::fixture;

    /// Fields of a message: number, varint, bytes.
    fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
        fn varint(bytes: &mut &[u8]) -> u64 {
            let mut value = 0;
            for shift in (0..64).step_by(7) {
                let (first, rest) = bytes.split_first().expect("a varint");
                *bytes = rest;
                value |= u64::from(first & 0x7f) << shift;
                if first & 0x80 == 0 {
                    break;
                }
            }
            value
        }
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let value = varint(&mut bytes);
            let (content, rest) = bytes.split_at(if tag & 7 == KIND_BYTES { value as usize } else { 0 });
            bytes = rest;
            found.push((tag >> 3, value, content.to_vec()));
        }
        found
    }

    #[test]
    fn what_was_written_can_be_read() {
        let zipped = render(&fixture::profile()).expect("rendered");
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(zipped.as_slice()).read_to_end(&mut bytes).expect("gzip");
        let all = fields(&bytes);
        let of = |number| all.iter().filter(move |field| field.0 == number).collect::<Vec<_>>();
        let strings: Vec<String> =
            of(6).iter().map(|field| String::from_utf8(field.2.clone()).expect("text")).collect();
        assert_eq!(strings[..5], ["", "samples", "count", "cpu", "nanoseconds"]);
        assert!(strings.iter().any(|text| text == "app::parse<u8>"));
        assert_eq!((of(1).len(), of(2).len(), of(4).len(), of(5).len()), (2, 4, 4, 4));
        assert_eq!(of(10)[0].1, 2_000_000_000);
        let first = fields(&of(2)[0].2);
        assert_eq!(
            first[1].2,
            [vec![2], {
                let mut m = Message::default();
                m.varint(20_000_000);
                m.0
            }]
            .concat()
        );
    }
}
