//! The page of a difference: the same flame graph, in colours of change.

use super::Difference;
use crate::Kind;
use crate::program_version;
use crate::render::{facts, flame_page, script_json};

pub(super) fn render(
    difference: &Difference,
    kind: Kind,
    [before, after]: [&str; 2],
    [origin_before, origin_after]: [&str; 2],
) -> String {
    let mut data = difference.to_json();
    data["unit"] = kind.unit().into();
    data["kind"] = kind.name().into();
    let title = format!("{}: the difference", kind.title());
    let subtitle = format!(
        "Before: {before} · after: {after} · red takes a larger share than before, blue a smaller one. {}",
        difference.basis()
    );
    let facts = facts(&[
        ("before", origin_before.to_owned()),
        ("after", origin_after.to_owned()),
        ("compared by", format!("ladoga {}", program_version())),
    ]);
    flame_page([&title, &subtitle, &facts], &script_json(&data))
}
