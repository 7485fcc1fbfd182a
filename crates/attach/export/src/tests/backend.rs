//! The thread that follows a drive.

use super::memory::{Limits, Memory, namespace};
use crate::backend::{Backend, DEFAULT_MODE};
use testkit::wait_for;

#[test]
fn a_drive_that_could_not_answer_is_asked_again() {
    let limits = Limits { transfer: 1 << 16, zero: 1 << 16, commands: 8 };
    let mut drive = None;
    let connect = |reports| {
        let memory = Memory::reporting(reports, limits, &[namespace(1, 4096, 1 << 20)]);
        drive = Some(memory.clone());
        Ok(memory as _)
    };
    let backend = Backend::over(connect, DEFAULT_MODE).unwrap();
    let drive = drive.unwrap();
    drive.fail_identification(2);
    // The only notice.
    drive.attach(namespace(2, 4096, 1 << 20));
    wait_for("the file of namespace 2", || backend.files().all().len() == 2);
}
