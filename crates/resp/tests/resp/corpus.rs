/// Bytes as clients send them, and as none should.
pub(crate) fn streams() -> Vec<Vec<u8>> {
    let large =
        |bytes: usize| [format!("${bytes}\r\n").into_bytes(), vec![b'v'; bytes], b"\r\n".to_vec()].concat();
    let mut streams: Vec<Vec<u8>> = [
        &b"*1\r\n$4\r\nPING\r\n"[..],
        b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n",
        b"PING\r\nSET k \"a b\\x41\\n\" 'c'\r\n\r\n  \r\nGET k\n",
        b"*0\r\n*-1\r\nPING\r\n",
        b"*1\r\n+OK\r\n",
        b"*x\r\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n$5000\r\n",
        b"SET \"k\r\n",
        b"*12\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\ne\r\n$1\r\nf\r\n$1\r\ng\r\n$1\r\nh\r\n$1\r\ni\r\n$1\r\nj\r\n$1\r\nk\r\n$1\r\nl\r\n",
    ]
    .map(<[u8]>::to_vec)
    .into();
    let set = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n";
    for bytes in [511, 512, 600, 4_096] {
        streams.push([&set[..], &large(bytes), &set[..], &large(bytes), b"PING\r\n"].concat());
    }
    streams
}
