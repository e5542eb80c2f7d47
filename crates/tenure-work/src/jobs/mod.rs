//! Jobs: commands that are queued, run at most so many at once, each by one worker at a time.
//!
//! | module | what it holds |
//! |---|---|
//! | [`job`] | a job, as its record keeps it |
//! | [`mod@decide`] | the effect of an event on a job: one pure function, a table |
//! | [`approvals`] | who may approve a job, and what an approval is of |
//! | [`caps`] | the caps, who runs now, and what a cap refuses |
//! | [`moves`] | moves of jobs as one change of records |
//! | [`queue`] | the queue as records: submitting, listing, moving jobs, caps, pauses |
//! | [`reasons`] | why a job does not run yet |
//! | [`turns`] | whose turn it is: fair between projects, ordered within one |
//!
//! # Records
//!
//! | kind | id | what it holds | which changes name it |
//! |---|---|---|---|
//! | `job` | the job | all of the job | all of that job |
//! | `job_key` | its creator and key | the id of the job | submit |
//! | `job_project` | the project | pause, virtual time, the number of jobs that wait | all that start, end or cancel a job, or let it wait |
//! | `job_project` | `all` | the pause and the virtual time of all projects | every start and every end |
//! | `job_running` | `all` | the ids of what runs, with project, map and class | every start and every end |
//! | `job_caps` | `all` | the caps | every start; changes of the caps |
//!
//! Records are listed by one column, in the order of their ids. So the id of a job begins with its
//! priority and the time of its submission, and the jobs that wait in a project are listed by a
//! column of their own, in the order of their turn, however many there are.
//!
//! What runs is a list of ids and no counter, so nothing can be counted twice or forgotten: a job
//! is in the list from the change that starts it to the change that ends that attempt, and both
//! changes write the list and the job together. A change of the caps is one that every start
//! compares, so that a cap which was lowered holds for the next start.
//!
//! # One attempt, step by step
//!
//! Every attempt is made under an exclusive lease on `job:ID`, in a session of its own. Its token is
//! the fence of the start and of the end. The session lives as long as the shim that runs the
//! command, which has its descriptor; there is no other sign of life.
//!
//! 1. **Reserve.** The worker takes `job:ID` without waiting. A crash: the session ends with the
//!    process, and the job is free. A race: one of two workers is refused, and looks for another.
//! 2. **Locks.** It takes the locks of the job in the one order without waiting. Refused: it gives
//!    all back and stands in line for the refused one alone, and only while the caps have room. A
//!    crash: the session ends, and its locks and its place in line with it.
//! 3. **Start.** One change, under the fence of step 1: the caps are asked ([`caps::Running::refusals`]),
//!    the job is running, the list has it, the project has one that waits less. A crash before it:
//!    as after step 2. A crash after it and before step 4: as in step 4.
//! 4. **Run.** The shim runs the command. A crash of the worker alone: on an embedded store the
//!    shim goes on, keeps the session, and writes the exit status to a file before it ends. A crash
//!    of both: the kernel ends the session, `job:ID` is free, and no status is there. On
//!    PostgreSQL the shim ends the command at 5/6 of the lease that it was told of last.
//! 5. **End.** One change, under the same fence: the job has its end, the list has it no more. A
//!    crash before it: whoever takes `job:ID` next finds a job that is running in its record and
//!    held by none. If there is a status, that is its end. If there is none, the attempt was lost:
//!    [`decide()`] says whether it runs again.
//! 6. **Release** of the locks and of `job:ID`.
//!
//! Two runs at once would need two holders of `job:ID`, or a start by one that does not hold it; the
//! fence of step 3 refuses the second. A worker that was stopped and then continued meets the same
//! fence in step 5: its end is refused.

pub mod approvals;
pub mod caps;
pub mod decide;
mod error;
pub mod job;
pub mod moves;
pub mod queue;
pub mod reasons;
pub mod turns;

pub use caps::Running;
pub use decide::{Event, IllegalMove, decide};
pub use error::JobError;
pub use job::{Job, Spec};
pub use queue::Jobs;
