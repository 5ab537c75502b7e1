use ladoga_storage::TableList;

/// How long each of these tables is.
pub(crate) const TABLE_BYTES: u64 = 4_096;

/// A list of tables, each with its number and the numbers of its blobs, byte by byte as docs/formats.md has it.
pub(crate) fn table_list(tables: &[(u64, &[u64])]) -> TableList {
    TableList::decode(&table_list_bytes(tables)).expect("a list that fits together")
}

/// The same, as bytes.
pub(crate) fn table_list_bytes(tables: &[(u64, &[u64])]) -> Vec<u8> {
    const NEXT_FILE: u8 = 1;
    const FIRST_WAL: u8 = 2;
    const ADDED: u8 = 3;
    const FIRST_SEQUENCE: u8 = 5;
    let mut bytes = Vec::new();
    for (item, number) in [(NEXT_FILE, 10_000_u64), (FIRST_WAL, 1), (FIRST_SEQUENCE, 1)] {
        bytes.push(item);
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    for (number, blobs) in tables {
        bytes.extend_from_slice(&[ADDED, 0]);
        for field in [*number, TABLE_BYTES, 3, 0, 9] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        for (timestamp, node) in [(8_u64, 0_u16), (5, 0)] {
            bytes.extend_from_slice(&timestamp.to_le_bytes());
            bytes.extend_from_slice(&node.to_le_bytes());
        }
        for key in [b"a", b"b"] {
            bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
            bytes.extend_from_slice(key);
        }
        bytes.extend_from_slice(&(blobs.len() as u32).to_le_bytes());
        blobs.iter().for_each(|blob| bytes.extend_from_slice(&blob.to_le_bytes()));
    }
    bytes
}
