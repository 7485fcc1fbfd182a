//! Questions to a real drive which blocks are allocated.

use crate::backend::Backend;
use crate::drive::{Extent, ExtentQuery};
use fuser::Errno;
use host::{Host, Identity};
use live::{Buffer, LocalTransport, Shape};
use nvme::AdminCommand;
use nvme::admin::{GetLbaStatus, LbaStatusAction, PowerCut};
use nvme::quota::{Quota, QuotaKind};
use std::sync::mpsc;
use std::time::Duration;

const DRIVE: &str = r#"
[[set]]
media = "dram"
capacity = "16MiB"

[[namespace]]
size = "4MiB"

[[namespace]]
size = "4MiB"
"#;

#[test]
fn a_throttled_namespace_delays_no_question_about_another() {
    let shape = Shape { config: device::Config::from_toml(DRIVE).unwrap(), toml: DRIVE.to_owned() };
    let running = live::start(Some(shape), &live::Options::default(), &mut |_| ()).unwrap();
    let identity = Identity::new("nqn.2026-11.test:admin".parse().unwrap());
    let mut admin = Host::connect(LocalTransport::new(running.handle()), &identity).unwrap();
    let namespace = admin.namespace(1).unwrap();
    admin.io_queue(4).unwrap().write(&namespace, 0, &vec![1; 4 << 20], false).unwrap();
    let backend = Backend::start(&running.handle()).unwrap();

    // A scan pays for a MiB after its first step. The second one comes four minutes later.
    let mut quota = Quota::unlimited();
    quota.set_limit(QuotaKind::ReadBandwidth, Some(Quota::MIN_BANDWIDTH));
    admin.set_quota(1, &quota, false).unwrap();
    let scan = GetLbaStatus { nsid: 1, slba: 0, dwords: 1024, range: 0, atype: LbaStatusAction::SCAN };
    let queue = admin.transport().admin_queue().unwrap();
    queue.post(&AdminCommand::GetLbaStatus(scan).into(), None, Buffer::zeroed(4096), |_, _| ()).unwrap();

    let ask = |name: &str| {
        let file = backend.files().find(name).unwrap();
        let (told, answer) = mpsc::channel();
        let then = move |found: Result<Vec<Extent>, Errno>| told.send(found.map_err(i32::from)).unwrap();
        backend.drive().extents(ExtentQuery::new(&file.namespace.device, 0, 8, 8), Box::new(then));
        answer
    };
    let (throttled, again, other) = (ask("nvme0n1"), ask("nvme0n1"), ask("nvme0n2"));
    let limit = Duration::from_secs(60);
    assert_eq!(other.recv_timeout(limit).unwrap(), Ok(vec![Extent { blocks: 8, allocated: false }]));
    assert_eq!(backend.drive().namespaces().unwrap().len(), 2);
    assert!(throttled.try_recv().is_err() && again.try_recv().is_err());

    admin.power_cut(PowerCut { off_ms: 1000, ..PowerCut::default() }).unwrap();
    for answer in [throttled, again] {
        assert_eq!(answer.recv_timeout(limit).unwrap(), Err(Errno::EIO.into()));
    }
}
