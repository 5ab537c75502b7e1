use std::collections::HashMap;
use std::io::Read;

use flate2::read::GzDecoder;

/// A sample as `profile.proto` has it, with its names looked up.
pub(crate) struct Sample {
    /// The leaf first.
    pub(crate) functions: Vec<String>,
    pub(crate) values: Vec<u64>,
}

/// A profile in the format of pprof, read strictly: whatever refers to something has to find it.
pub(crate) struct Pprof {
    /// Names and units of what each sample has a value of.
    pub(crate) types: Vec<(String, String)>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) duration_ns: u64,
}

/// A field of a message: its number, its varint or the length of its bytes, its bytes.
type Field<'b> = (u64, u64, &'b [u8]);

impl Pprof {
    pub(crate) fn parse(zipped: &[u8]) -> Pprof {
        let mut bytes = Vec::new();
        GzDecoder::new(zipped).read_to_end(&mut bytes).expect("gzip");
        let all = fields(&bytes);
        let of = |number: u64| all.iter().filter(move |field| field.0 == number).map(|field| field.2);
        let strings: Vec<&str> = of(6).map(|text| str::from_utf8(text).expect("text")).collect();
        assert_eq!(strings.first(), Some(&""), "the first string is the empty one");
        let string = |index: u64| strings[index as usize].to_owned();
        let functions: HashMap<u64, u64> =
            of(5).map(|function| (number(function, 1), number(function, 2))).collect();
        let locations: HashMap<u64, String> = of(4)
            .map(|location| {
                let [line] = fields(location)
                    .iter()
                    .filter(|field| field.0 == 4)
                    .map(|field| field.2)
                    .collect::<Vec<_>>()[..]
                else {
                    panic!("a location without its line");
                };
                (number(location, 1), string(functions[&number(line, 1)]))
            })
            .collect();
        let sample = |sample| Sample {
            functions: numbers(sample, 1).iter().map(|location| locations[location].clone()).collect(),
            values: numbers(sample, 2),
        };
        Pprof {
            types: of(1).map(|kind| (string(number(kind, 1)), string(number(kind, 2)))).collect(),
            samples: of(2).map(sample).collect(),
            duration_ns: number(&bytes, 10),
        }
    }
}

fn fields(mut bytes: &[u8]) -> Vec<Field<'_>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = varint(&mut bytes);
        let length = match tag & 7 {
            0 => 0,
            2 => value as usize,
            kind => panic!("no field of ours is of kind {kind}"),
        };
        let (content, rest) = bytes.split_at(length);
        bytes = rest;
        found.push((tag >> 3, value, content));
    }
    found
}

/// The value of a field that is a number, 0 if it is absent.
fn number(message: &[u8], field: u64) -> u64 {
    fields(message).iter().find(|found| found.0 == field).map_or(0, |found| found.1)
}

/// The values of a packed field.
fn numbers(message: &[u8], field: u64) -> Vec<u64> {
    let all = fields(message);
    let mut packed = all.iter().find(|found| found.0 == field).expect("a packed field").2;
    let mut values = Vec::new();
    while !packed.is_empty() {
        values.push(varint(&mut packed));
    }
    values
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a varint");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return value;
        }
    }
    panic!("a varint of more than ten bytes");
}
