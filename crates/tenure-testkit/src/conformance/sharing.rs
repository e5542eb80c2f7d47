//! Sharing: the locks that let others in.

use tenure::Mode;

use super::case::{Case, case};
use crate::stage::Stage;

pub(super) const CASES: &[Case] = &[
    case!(any_number_of_readers_share),
    case!(one_upgradeable_holder_shares_with_readers),
    case!(a_writer_enters_when_the_last_reader_leaves),
    case!(a_reader_that_leaves_takes_nobody_with_it),
];

fn any_number_of_readers_share(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let mut readers = stage.agents(*placement, ["r1", "r2", "r3", "r4", "r5"]);
        for (index, reader) in readers.iter_mut().enumerate() {
            reader.take("a", Mode::Read);
            assert_eq!(stage.held().len(), index + 1, "{placement:?}");
        }
        for reader in &mut readers {
            reader.release("a");
        }
    }
}

fn one_upgradeable_holder_shares_with_readers(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let [mut r1, mut ana, mut r2, mut bo] = stage.agents(*placement, ["r1", "ana", "r2", "bo"]);
        r1.take("a", Mode::Read);
        ana.take("a", Mode::Upgradeable);
        r2.take("a", Mode::Read);
        assert!(
            bo.try_take("a", Mode::Upgradeable).is_none(),
            "{placement:?}"
        );
        assert_eq!(
            stage.shown(),
            ["ana name:a upgradeable", "r1 name:a read", "r2 name:a read"]
        );
        ana.release("a");
        // Readers do not keep the next upgradeable holder out.
        bo.take("a", Mode::Upgradeable);
    }
}

fn a_writer_enters_when_the_last_reader_leaves(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let [mut writer, mut r1, mut r2, mut r3] =
            stage.agents(*placement, ["w", "r1", "r2", "r3"]);
        for reader in [&mut r1, &mut r2, &mut r3] {
            reader.take("a", Mode::Read);
        }
        let wanted = writer.want("a", Mode::Write);
        for reader in [&mut r1, &mut r2, &mut r3] {
            stage.until_waiting("a", 1);
            assert!(writer.answered(wanted).is_none(), "{placement:?}");
            reader.release("a");
        }
        writer.granted(wanted);
        assert_eq!(stage.shown(), ["w name:a write"]);
    }
}

fn a_reader_that_leaves_takes_nobody_with_it(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let [mut r1, mut r2, mut bo] = stage.agents(*placement, ["r1", "r2", "bo"]);
        r1.take("a", Mode::Read);
        r2.take("a", Mode::Read);
        r1.release("a");
        assert!(bo.try_take("a", Mode::Write).is_none(), "{placement:?}");
        assert_eq!(stage.shown(), ["r2 name:a read"]);
    }
}
