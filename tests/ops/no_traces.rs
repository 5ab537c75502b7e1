use crate::support::{Ladoga, Launch};

#[test]
fn a_build_without_traces_says_how_to_get_them() {
    for (flag, value) in [
        ("--otlp", "http://127.0.0.1:4318"),
        ("--otlp-sample", "0.5"),
        ("--otlp-service", "shop"),
        ("--otlp-headers-file", "headers"),
    ] {
        let outcome = Ladoga::new(["serve", flag, value]).run();
        outcome.expect_failure(2, &[flag, "this binary was built without the cargo feature otel"]);
    }
}

/// They are set for all programs of a machine.
#[test]
fn the_variables_of_opentelemetry_stop_no_build_without_traces() {
    let mut node = Launch::new().env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318").start();
    node.connect().put("k", b"v");
    node.stop();
}
