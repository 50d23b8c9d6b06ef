//! How large the futures are, by `size_of_val`: the same on every run of one compiler.

use crate::{
    functions::{Kilobyte, argument, local, moved_argument, nothing, spent_argument, string},
    report::{Report, Table},
};

/// What the attribute may add to the future of a function that uses its arguments after an
/// `await`. Such a function keeps each argument twice without a lock as well, once as it was given
/// and once as the body's: that is rustc's doing, and this bound tells that there is no third.
const LOCK: usize = 672;

pub(crate) fn measure(report: &mut Report) {
    const KILOBYTE: Kilobyte = Kilobyte([1; 1024]);
    let name = String::new;
    let mut table = Table::new("bytes", "Bytes of the future");
    let mut row = |body: &str, arguments: usize, [annotated, hold, guard, plain]: [usize; 4]| {
        let most = plain + LOCK + arguments;
        report.check(annotated <= most, || {
            format!("{body}: the annotated future has {annotated} bytes, more than {most}")
        });
        table.row(
            body,
            [
                ("plain", plain as f64),
                ("annotated", annotated as f64),
                ("hold", hold as f64),
                ("guard", guard as f64),
                ("lock", annotated as f64 - plain as f64),
            ],
        );
    };
    row(
        "no arguments",
        0,
        [
            size_of_val(&nothing::annotated()),
            size_of_val(&nothing::hold()),
            size_of_val(&nothing::guard()),
            size_of_val(&nothing::plain()),
        ],
    );
    row(
        "1 KiB argument",
        0,
        [
            size_of_val(&argument::annotated(KILOBYTE)),
            size_of_val(&argument::hold(KILOBYTE)),
            size_of_val(&argument::guard(KILOBYTE)),
            size_of_val(&argument::plain(KILOBYTE)),
        ],
    );
    row(
        "1 KiB argument, async move",
        0,
        [
            size_of_val(&argument::annotated(KILOBYTE)),
            size_of_val(&moved_argument::hold(KILOBYTE)),
            size_of_val(&argument::guard(KILOBYTE)),
            size_of_val(&argument::plain(KILOBYTE)),
        ],
    );
    row(
        "1 KiB argument, spent at once",
        // The plain function keeps it once; with a lock it waits for it in the body.
        size_of::<Kilobyte>(),
        [
            size_of_val(&spent_argument::annotated(KILOBYTE)),
            size_of_val(&spent_argument::hold(KILOBYTE)),
            size_of_val(&spent_argument::guard(KILOBYTE)),
            size_of_val(&spent_argument::plain(KILOBYTE)),
        ],
    );
    row(
        "1 KiB local",
        0,
        [
            size_of_val(&local::annotated()),
            size_of_val(&local::hold()),
            size_of_val(&local::guard()),
            size_of_val(&local::plain()),
        ],
    );
    row(
        "String argument",
        0,
        [
            size_of_val(&string::annotated(name())),
            size_of_val(&string::hold(name())),
            size_of_val(&string::guard(name())),
            size_of_val(&string::plain(name())),
        ],
    );
    report.add(table);
}

#[test]
fn the_lock_adds_a_constant_and_no_copy_of_an_argument() {
    let mut report = Report::default();
    measure(&mut report);
    assert_eq!(report.complaints(), [""; 0], "\n{report}");
}
