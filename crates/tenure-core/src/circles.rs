//! Circles of requests that wait for each other.
//!
//! Within a session the order of locks excludes them. Requests of separate sessions can each hold
//! what the other waits for, and so can leases that outlast their sessions. They would learn of it
//! only when their time is over.
//!
//! # Who waits for whom
//!
//! A waiter waits for the holders that conflict with it, and for the conflicting waiters ahead of
//! it. A waiter for one of several places waits for no holder in particular, so the search ends at
//! it. From a lease the search goes on at the waiters that stand for its holder: those of the same
//! session, those of a run inside of it, and, if the lease outlasts its session, those of the same
//! owner whose leases will, too. An automated owner does one thing at a time, so such a circle is
//! certain. A person may do several things at a time, so such a circle is only told. A loop of one
//! session, or of one owner whose requests count as one, is no circle.
//!
//! # The protocol
//!
//! 1. The request is put in line, and that is committed. If two requests close a circle, the second
//!    to commit sees the first.
//! 2. The store reads all lines and their holders in one fresh snapshot, and looks for a circle
//!    through the request. It does so only for a request whose session may hold something
//!    ([`Standing::searches`]). A crash here leaves a waiter of a dead session, which is passed
//!    over.
//! 3. If a certain circle is found, and none of its sessions is proved dead, it is written to the
//!    audit (`deadlock`), in a transaction of its own. A crash after that leaves the entry and, as
//!    in 2, a waiter that is passed over.
//! 4. The request leaves the line, and is refused. Another holder may have released meanwhile: then
//!    the refusal was needless, and what was granted in that instant is given back. If both
//!    requests see the circle, both leave.
//!
//! # Limitations
//!
//! - Only circles within one store are found: a circle through several stores, or through
//!   documents, boards and ledgers, ends with its deadlines.
//! - A circle may be closed by something other than a request, such as a lease that begins to
//!   outlast its session. The next request in it sees that.
//! - At most [`EDGES_MAX`] edges are followed and [`WAITERS_MAX`] waiters read. Beyond that the
//!   deadlines decide.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;

use crate::decide::{Bound, HolderState, Life, Want};
use crate::internal::loaded::{LeaseRow, Loaded};
use crate::{LeaseId, Mode, Owner, Resource, SessionId};

/// The largest number of edges that a search follows.
pub const EDGES_MAX: usize = 64;
/// The largest number of waiters that a search reads.
pub const WAITERS_MAX: usize = 1000;

/// The words before each circle in the reason of a waiter.
pub const IN_CIRCLE: &str = "; in a circle: ";

/// The relation of a request to the other work of its owner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Standing {
    /// The leases of the runs around the session that asks.
    pub ancestors: Vec<LeaseId>,
    /// Tells if its lease will outlast the session, and whose it is then.
    pub lasting: Lasting,
    /// True if its session may hold something, so that a circle is looked for.
    pub searches: bool,
}

/// Tells if a lease outlasts the session that takes it, and whose it is then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Lasting {
    /// The lease ends with its session.
    #[default]
    No,
    /// The lease outlasts its session and is a person's.
    Person,
    /// The lease outlasts its session and is an automated owner's.
    Automated,
}

impl Lasting {
    /// Returns the word that stores keep for a lease that outlasts its session.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Lasting::No => None,
            Lasting::Person => Some("person"),
            Lasting::Automated => Some("automated"),
        }
    }
}

impl Standing {
    /// Returns the ancestors as stores keep them, if there are any.
    pub fn ancestors_text(&self) -> Option<String> {
        let ids: Vec<&str> = self.ancestors.iter().map(LeaseId::as_str).collect();
        (!ids.is_empty()).then(|| ids.join(" "))
    }

    /// Reads a standing from what a store keeps of it.
    pub fn read(ancestors: Option<&str>, lasting: Option<&str>) -> Self {
        let ids = ancestors.unwrap_or_default().split(' ');
        Self {
            ancestors: ids.filter_map(|id| LeaseId::parse(id).ok()).collect(),
            lasting: match lasting {
                Some("person") => Lasting::Person,
                Some("automated") => Lasting::Automated,
                _ => Lasting::No,
            },
            searches: false,
        }
    }
}

/// A lease, as the search sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holds {
    /// The id of the lease.
    pub lease: LeaseId,
    /// The session that took it.
    pub session: SessionId,
    /// The owner of the lease.
    pub owner: Owner,
    /// The mode it is held in.
    pub mode: Mode,
    /// True if it outlasts its session.
    pub lasting: bool,
}

/// A waiter, as the search sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Waits {
    /// The future lease, or the lease to upgrade.
    pub lease: LeaseId,
    /// The session that waits.
    pub session: SessionId,
    /// The owner that waits.
    pub owner: Owner,
    /// The lease or upgrade that it waits for.
    pub want: Want,
    /// The relation to the other work of its owner.
    pub standing: Standing,
}

/// One resource that is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The resource that is waited for.
    pub resource: Resource,
    /// The leases that are held of it.
    pub holders: Vec<Holds>,
    /// Its waiters, in the order in which they are served.
    pub waiters: Vec<Waits>,
}

/// One step of a circle: a waiter, and what keeps it out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Link {
    /// The resource that is waited for.
    pub resource: Resource,
    /// The waiter that is kept out.
    pub waiter: Waits,
    /// The lease that keeps it out, or `None` if that is a waiter ahead of it.
    pub holder: Option<Holds>,
    /// The owner of that lease or waiter.
    pub by: Owner,
}

/// Requests that wait for each other. Each link waits for the next, and the last for the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circle {
    /// The links, each followed by the one it waits for.
    pub links: Vec<Link>,
    /// True if no request in it can go on before another gives up. False if that holds only as long
    /// as a person does one thing at a time.
    pub is_certain: bool,
}

impl Waits {
    /// Returns true if the holder of this lease may have to wait for this waiter to be granted
    /// before it releases.
    fn stands_for(&self, held: &Holds, people: bool) -> bool {
        self.session == held.session
            || self.lease == held.lease
            || self.standing.ancestors.contains(&held.lease)
            || held.lasting && self.owner == held.owner && self.merges(people)
    }

    /// Returns true if this waiter and the other count as one: they are of one session, or of one
    /// owner whose lasting requests count as one.
    fn is_beside(&self, other: &Waits, people: bool) -> bool {
        self.session == other.session
            || self.owner == other.owner && self.merges(people) && other.merges(people)
    }

    fn merges(&self, people: bool) -> bool {
        match self.standing.lasting {
            Lasting::No => false,
            Lasting::Person => people,
            Lasting::Automated => true,
        }
    }

    fn conflicts_with(&self, mode: Mode) -> bool {
        match self.want {
            Want::Upgrade => true,
            Want::Lease {
                mode: own,
                capacity: None,
            } => own.conflicts_with(mode),
            Want::Lease { capacity, .. } => capacity == Some(1),
        }
    }
}

impl Line {
    /// Makes the line from the rows that a store has loaded. `is_lasting` tells the leases that
    /// outlast their session. Sessions that are proved dead, and leases that are about to end, are
    /// left out, since they keep no waiter for long.
    pub fn new<L, W>(
        resource: Resource,
        loaded: &Loaded<L, W>,
        now: crate::decide::Millis,
        is_lasting: impl Fn(&LeaseRow<L>) -> bool,
    ) -> Self {
        let stays = |row: &&LeaseRow<L>| {
            let expired =
                matches!(row.holder.binding, Bound::Lease { expires, .. } if expires <= now);
            let revoking = matches!(row.holder.state, HolderState::Revoking { .. });
            !expired && !revoking && !row.has_run_out(now)
        };
        let holders = loaded.leases.iter().filter(stays).map(|row| Holds {
            lease: row.lease.lease.clone(),
            session: row.lease.session.clone(),
            owner: row.lease.owner.clone(),
            mode: row.lease.mode,
            lasting: is_lasting(row),
        });
        let alive = loaded.waiters.iter();
        let alive = alive.filter(|row| row.waiter.life == Life::Alive && row.waiter.deadline > now);
        let waiters = alive.map(|row| Waits {
            lease: row.waiter.lease.clone(),
            session: row.session.clone(),
            owner: row.owner.clone(),
            want: row.waiter.want,
            standing: row.standing.clone(),
        });
        Self {
            resource,
            holders: holders.collect(),
            waiters: waiters.collect(),
        }
    }
}

/// Looks for a circle through a waiter: a certain one, else one that people may be in.
pub fn find(lines: &[Line], waiter: &LeaseId) -> Option<Circle> {
    let search = Search::new(lines);
    search
        .from(waiter, false)
        .or_else(|| search.from(waiter, true))
}

/// Returns every circle, each once.
pub fn find_all(lines: &[Line]) -> Vec<Circle> {
    let (search, mut told) = (Search::new(lines), HashSet::new());
    let mut circles = Vec::new();
    for people in [false, true] {
        for waiter in lines.iter().flat_map(|line| &line.waiters) {
            if told.contains(&waiter.lease) {
                continue;
            }
            if let Some(circle) = search.from(&waiter.lease, people) {
                told.extend(circle.links.iter().map(|link| link.waiter.lease.clone()));
                circles.push(circle);
            }
        }
    }
    circles
}

/// A place in the lines: the line, and the waiter in it.
type At = (usize, usize);
/// A place, and true if the way to it met a waiter that does not count as one with the first.
type Reached = (At, bool);
/// The place before each place that was reached, and the link between them.
type CameFrom = HashMap<Reached, (Reached, Link)>;

struct Search<'a> {
    lines: &'a [Line],
}

impl<'a> Search<'a> {
    fn new(lines: &'a [Line]) -> Self {
        Self { lines }
    }

    fn waiter(&self, (line, index): At) -> &'a Waits {
        &self.lines[line].waiters[index]
    }

    fn places(&self) -> impl Iterator<Item = At> + '_ {
        let lines = self.lines.iter().enumerate();
        lines.flat_map(|(line, it)| (0..it.waiters.len()).map(move |index| (line, index)))
    }

    /// Returns the edges of a waiter: each with the place where the search goes on.
    fn edges(&self, at: At, people: bool) -> Vec<(Link, At)> {
        let (line, waiter) = (&self.lines[at.0], self.waiter(at));
        let several = matches!(waiter.want, Want::Lease { capacity: Some(n), .. } if n > 1);
        if several {
            return Vec::new();
        }
        let link = |holder: Option<&Holds>, by: &Owner| Link {
            resource: line.resource.clone(),
            waiter: waiter.clone(),
            holder: holder.cloned(),
            by: by.clone(),
        };
        let mut edges = Vec::new();
        let holders = line.holders.iter();
        for held in
            holders.filter(|held| held.lease != waiter.lease && waiter.conflicts_with(held.mode))
        {
            let on = self
                .places()
                .filter(|at| self.waiter(*at).stands_for(held, people));
            edges.extend(on.map(|at| (link(Some(held), &held.owner), at)));
        }
        let ahead = line.waiters[..at.1].iter();
        for other in ahead.filter(|other| waiter.conflicts_with(other.want.mode())) {
            let on = self
                .places()
                .filter(|at| self.waiter(*at).is_beside(other, people));
            edges.extend(on.map(|at| (link(None, &other.owner), at)));
        }
        edges
    }

    /// Searches breadth first, so that the shortest circle is found. A place that is reached past
    /// another owner's waiter counts apart from the same place reached without one: a loop without
    /// one is no circle.
    fn from(&self, waiter: &LeaseId, people: bool) -> Option<Circle> {
        let start = self.places().find(|at| self.waiter(*at).lease == *waiter)?;
        let mut came_from = CameFrom::new();
        let mut queue = VecDeque::from([(start, false)]);
        let mut followed = 0;
        while let Some(from) = queue.pop_front() {
            for (link, at) in self.edges(from.0, people) {
                followed += 1;
                if followed > EDGES_MAX {
                    return None;
                }
                let other = !self.waiter(at).is_beside(self.waiter(start), people);
                let to = (at, from.1 || other);
                let closes = at == start && to.1;
                if !closes && (at == start || came_from.contains_key(&to)) {
                    continue;
                }
                if closes {
                    return Some(Circle {
                        links: path(&came_from, from, link, start),
                        is_certain: !people,
                    });
                }
                came_from.insert(to, (from, link));
                queue.push_back(to);
            }
        }
        None
    }
}

/// Returns the links from the start to the one that closes the circle.
fn path(came_from: &CameFrom, mut from: Reached, last: Link, start: At) -> Vec<Link> {
    let mut links = vec![last];
    while from != (start, false) {
        let Some((before, link)) = came_from.get(&from) else {
            break;
        };
        links.push(link.clone());
        from = *before;
    }
    links.reverse();
    links
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, link) in self.links.iter().enumerate() {
            let separator = if number > 0 { "; " } else { "" };
            let (owner, resource) = (&link.waiter.owner, &link.resource);
            let mode = link.waiter.want.mode();
            write!(f, "{separator}{owner} waits for {resource} ({mode}), ")?;
            match &link.holder {
                Some(held) => write!(f, "which {} holds as lease {}", held.owner, held.lease)?,
                None => write!(f, "which {} waits for ahead of it", link.by)?,
            }
        }
        Ok(())
    }
}

impl Circle {
    /// Returns the leases that an owner would have to release, since they keep another owner out.
    pub fn leases_of(&self, owner: &Owner) -> Vec<&LeaseId> {
        let held = self.links.iter().filter_map(|link| link.holder.as_ref());
        let held = held.filter(|held| held.owner == *owner);
        held.map(|held| &held.lease).collect()
    }

    /// Returns the sessions whose death would open the circle.
    pub fn sessions(&self) -> Vec<SessionId> {
        let waiting = self.links.iter().map(|link| link.waiter.session.clone());
        let held = self.links.iter().filter_map(|link| link.holder.as_ref());
        let held = held.filter(|held| !held.lasting);
        waiting
            .chain(held.map(|held| held.session.clone()))
            .collect()
    }

    /// Returns true if this waiter is in the circle.
    pub fn has(&self, waiter: &LeaseId) -> bool {
        self.links.iter().any(|link| link.waiter.lease == *waiter)
    }
}

#[cfg(test)]
mod tests;
