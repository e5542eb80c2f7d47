//! The holders as a table, and the waiters as lines below it.

use std::time::Duration;

use tenure::{Binding, Lease, LeaseState, Listing, Waiting, clock, duration};
use tenure_core::circles::IN_CIRCLE;

use crate::people::{age, ago, cut, run_unseen, this_host, visible};
use crate::table::Table;

/// A page as it is shown to people.
pub struct View<'a> {
    pub listing: &'a Listing,
    /// True if leases are shown by id. In a store that can neither break nor release leases, ids
    /// are of no use.
    pub by_id: bool,
}

/// The heading of a column and the cell of a lease in it.
type Column<'a> = (&'static str, Box<dyn Fn(&Lease) -> String + 'a>);

impl View<'_> {
    /// Returns the text, no wider than the terminal if there is one. Circles are an exception: each
    /// is shown whole, in a line of its own below its waiter.
    pub fn text(&self, width: Option<usize>) -> String {
        let columns = self.columns();
        let mut table = Table::new(columns.iter().map(|(heading, _)| *heading).collect());
        for lease in &self.listing.held {
            table.push(columns.iter().map(|(_, cell)| cell(lease)));
        }
        let mut text = table.text(width, &["RESOURCE", "OWNER", "PURPOSE", "COMMAND"]);
        for waiter in self.listing.waiting.iter().flatten() {
            let mut reason = waiter.reason.split(IN_CIRCLE);
            let line = waiting_line(waiter, reason.next().unwrap_or_default());
            text.push_str(&cut(&visible(&line), width.unwrap_or(usize::MAX)));
            text.push('\n');
            for circle in reason {
                text.push_str(&format!("  in a circle: {}\n", visible(circle)));
            }
        }
        text
    }

    /// Returns the usual columns, and those of the others that are not empty here.
    fn columns(&self) -> Vec<Column<'_>> {
        let host = this_host();
        let held = &self.listing.held;
        let mut columns: Vec<Column<'_>> = vec![
            ("RESOURCE", Box::new(|lease| lease.resource.to_string())),
            ("MODE", Box::new(|lease| lease.mode.to_string())),
        ];
        if held.iter().any(|lease| lease.state != LeaseState::Held) {
            columns.push(("STATE", Box::new(|lease| lease.state.as_str().to_owned())));
        }
        columns.push(("OWNER", Box::new(|lease| lease.owner.to_string())));
        if self.by_id {
            columns.push(("LEASE", Box::new(|lease| lease.lease.to_string())));
        }
        columns.push(("PID", Box::new(move |lease| pid(lease, &host))));
        columns.push(("AGE", Box::new(|lease| duration::show(age(lease)))));
        if held.iter().any(|lease| !ends(lease).is_empty()) {
            columns.push(("ENDS", Box::new(ends)));
        }
        let purpose = |lease: &Lease| lease.purpose.clone().unwrap_or_default();
        columns.push(("PURPOSE", Box::new(purpose)));
        columns.push(("COMMAND", Box::new(command)));
        columns
    }
}

fn command(lease: &Lease) -> String {
    match run_unseen(lease) {
        Some(unseen) => format!("{} {unseen}", lease.command),
        None => lease.command.clone(),
    }
}

/// Returns the process that holds a lease, and its host. If the `run` has ended, that is the
/// command. A lease of its own, as `lock` takes it, belongs to no process.
fn pid(lease: &Lease, host: &str) -> String {
    let pid = lease.command_pid.unwrap_or(lease.pid);
    match (lease.binding, lease.host == host) {
        (Binding::Lease, true) => "-".into(),
        (Binding::Lease, false) => format!("-@{}", lease.host),
        (Binding::Session, true) => pid.to_string(),
        (Binding::Session, false) => format!("{pid}@{}", lease.host),
    }
}

/// Returns the end of the lease, such as `in 14m 03s` or `3.0s ago`; nothing if it has no end.
fn ends(lease: &Lease) -> String {
    match lease.state {
        LeaseState::Revoking => "within 10s".into(),
        _ => lease.expires_at.map(ago).unwrap_or_default(),
    }
}

/// Returns the line of a waiter:
/// `waiting: name:x (write) by ana for 12s of 10m 00s, place 1: held for write by bob (lease l1)`.
fn waiting_line(waiter: &Waiting, reason: &str) -> String {
    let waited = clock::now().since(waiter.since);
    let mut line = format!(
        "waiting: {} ({}) by {} for {}",
        waiter.resource,
        waiter.mode,
        waiter.owner,
        duration::show(waited),
    );
    if let Some(deadline) = waiter.deadline {
        // The two times were noted a moment apart, so the limit is rounded to the one that was
        // asked for.
        let limit = deadline.since(waiter.since) + Duration::from_millis(500);
        let limit = duration::show(Duration::from_secs(limit.as_secs()));
        line.push_str(&format!(" of {limit}"));
    }
    line.push_str(&format!(", place {}: {reason}", waiter.position));
    match &waiter.blocked_by[..] {
        [] => {}
        [one] => line.push_str(&format!(" (lease {one})")),
        [one, rest @ ..] => line.push_str(&format!(" (lease {one} and {} more)", rest.len())),
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::people::columns;
    use crate::people::tests::lease;

    fn listing(held: Vec<Lease>) -> Listing {
        Listing::new(held, None)
    }

    fn text(listing: &Listing, by_id: bool, width: Option<usize>) -> String {
        let view = View { listing, by_id };
        view.text(width)
    }

    fn headings(text: &str) -> String {
        let words = text.lines().next().unwrap().split_whitespace();
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_table_fits_the_terminal_and_is_whole_elsewhere() {
        let mut long = lease("x");
        long.command = "make ".repeat(50);
        long.purpose = Some("because ".repeat(10));
        let listing = listing(vec![long, lease("map:atlas/m3")]);
        let narrow = text(&listing, false, Some(90));
        assert!(narrow.lines().all(|line| columns(line) <= 90), "{narrow}");
        assert!(narrow.contains('…'));
        let whole = text(&listing, false, None);
        assert!(!whole.contains('…') && whole.contains(&"make ".repeat(40)));
        assert!(whole.starts_with("RESOURCE"));
    }

    #[test]
    fn columns_that_have_nothing_to_say_are_left_out() {
        let mut page = listing(vec![lease("x")]);
        assert_eq!(
            headings(&text(&page, false, None)),
            "RESOURCE MODE OWNER PID AGE PURPOSE COMMAND"
        );
        page.held[0].state = LeaseState::Expired;
        page.held[0].binding = Binding::Lease;
        page.held[0].expires_at = Some(clock::now());
        let full = text(&page, true, None);
        assert_eq!(
            headings(&full),
            "RESOURCE MODE STATE OWNER LEASE PID AGE ENDS PURPOSE COMMAND"
        );
        for part in ["expired", "l1", "-@desk", " ago"] {
            assert!(full.contains(part), "{part} is not in {full}");
        }
    }

    #[test]
    fn a_waiter_is_shown_with_its_place_its_reason_and_who_blocks() {
        let since = clock::now();
        let since = tenure::Timestamp::from_millis(since.as_millis() - 12_300);
        let waiter: Waiting = serde_json::from_value(serde_json::json!({
            "waiter": "w1",
            "resource": "name:x",
            "mode": "write",
            "owner": "ana",
            "since": since,
            "deadline": since.after(Duration::from_secs(600)),
            "position": 1,
            "reason": "held for write by bob",
            "blocked_by": ["l1"],
        }))
        .unwrap();
        assert_eq!(
            waiting_line(&waiter, &waiter.reason),
            "waiting: name:x (write) by ana for 12s of 10m 00s, place 1: held for write by bob \
             (lease l1)"
        );
    }
}
