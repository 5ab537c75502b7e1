//! Lines of batches.

/// Batches to begin from.
pub fn batch_seeds() -> Vec<Vec<u8>> {
    let seeds: [&str; 6] = [
        "{\"op\":\"get\",\"key\":\"a\"}\n{\"op\":\"get\",\"key_base64\":\"/w==\",\"if_none_match\":\"*\"}",
        "{\"op\":\"put\",\"key\":\"b\",\"value\":\"\\u00e9\\ud83d\\ude00\\n\",\"ttl\":\"5m\"}\r\n\n",
        "{\"op\":\"put\",\"key\":\"c\",\"value_base64\":\"ZGVlcA==\",\"if_match\":\"\\\"0019abcdef012345-0000\\\", \\\"x\\\"\"}\n",
        " { \"key\" : \"d\" , \"op\" : \"delete\" , \"if_none_match\" : \"*\" } \n",
        "{\"op\":\"increment\",\"key\":\"e\",\"by\":-9223372036854775808}\n{\"op\":\"increment\",\"key\":\"e\"}\n",
        "[\"get\"]\n{\"op\":{\"get\":null},\"key\":[[[{}]]]}\n{\"no\":1e309}\nnull\n",
    ];
    seeds.map(|seed| seed.as_bytes().to_vec()).into()
}
