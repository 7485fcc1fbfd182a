//! The host against a scripted drive behind a Unix socket.

mod drive;

use std::time::Duration;

use blockdev::{Limits, Namespace};
use drive::{BLOCK, SUBNQN, Shared};
use fabric::target;
use host::{
    Addr, Data, Error, ExtentQuery, Host, Identity, Queue, SocketTransport, TransportError, namespace_create,
    view,
};
use nvme::admin::PowerCut;
use nvme::aer::{EventType, NoticeInfo};
use nvme::log::LogId;
use nvme::{Command, IoCommand, Status};

const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

fn connect(config: target::Config) -> (tempfile::TempDir, Shared, Host<SocketTransport>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d");
    let shared = drive::listen(&path, config);
    let addr: Addr = format!("unix://{}", path.display()).parse().unwrap();
    let transport = SocketTransport::new(addr, ANSWER_TIMEOUT).with_digests(true, true);
    let identity = Identity::new("nqn.2026-11.org.example:host".parse().unwrap());
    let host = Host::connect(transport, &identity).unwrap();
    (dir, shared, host)
}

fn with_namespace(config: target::Config) -> (tempfile::TempDir, Shared, Host<SocketTransport>) {
    let (dir, shared, mut host) = connect(config);
    let nsid = host.create_namespace(&namespace_create(1000, 0, 1)).unwrap();
    assert_eq!(nsid, 1);
    host.attach_namespace(1, &[5]).unwrap();
    (dir, shared, host)
}

#[test]
fn the_subsystem_is_discovered_and_the_controller_enabled() {
    let (_dir, shared, mut host) = connect(target::Config::default());
    assert_eq!(host.cntlid(), 5);
    assert_eq!(host.max_transfer(), 16384);
    assert_eq!(host.controller().subnqn, SUBNQN.parse::<nvme::Nqn>().unwrap().to_field());
    assert!(host.active_namespaces().unwrap().is_empty());
    assert!(shared.lock().unwrap().csts.rdy());
    assert_eq!(shared.lock().unwrap().hosts, ["nqn.2026-11.org.example:host"; 2]);
    host.shutdown().unwrap();
}

#[test]
fn the_same_over_tcp() {
    let (port, shared) = drive::listen_tcp(target::Config { max_h2c_data: 4096, ..Default::default() });
    shared.lock().unwrap().namespaces.insert(1, (vec![7; 1000 * BLOCK], true));
    let addr: Addr = format!("tcp://localhost:{port}?nqn={SUBNQN}").parse().unwrap();
    let identity = Identity::new("nqn.2026-11.org.example:host".parse().unwrap());
    let mut host = Host::connect(SocketTransport::new(addr, ANSWER_TIMEOUT), &identity).unwrap();
    assert_eq!(shared.lock().unwrap().hosts.len(), 1, "no discovery when the subsystem is named");
    let ns = host.namespace(1).unwrap();
    let mut queue = host.io_queue(4).unwrap();
    queue.write(&ns, 1, &[9; 100 * BLOCK], false).unwrap();
    let mut read = vec![0; 102 * BLOCK];
    queue.read(&ns, 0, &mut read).unwrap();
    assert!(read[..BLOCK] == [7; BLOCK] && read[BLOCK..101 * BLOCK] == [9; 100 * BLOCK]);
    host.shutdown().unwrap();
}

#[test]
fn namespaces_come_and_go() {
    let (_dir, _shared, mut host) = with_namespace(target::Config::default());
    assert_eq!(host.create_namespace(&namespace_create(10, 0, 1)).unwrap(), 2);
    assert_eq!(host.active_namespaces().unwrap(), [1]);
    assert_eq!(host.allocated_namespaces().unwrap(), [1, 2]);
    let problem = host.namespace(2).unwrap_err().to_string();
    assert!(problem.contains("not attached"), "{problem}");

    let refused = host.create_namespace(&namespace_create(1 << 40, 0, 1)).unwrap_err();
    assert!(refused.status().unwrap().is(Status::NAMESPACE_INSUFFICIENT_CAPACITY));
    assert_eq!(
        refused.to_string(),
        "creating a namespace: the drive answered: Namespace Insufficient Capacity (SCT 1h, SC 15h, DNR)"
    );
    let refused = host.power_cut(PowerCut::default()).unwrap_err();
    assert!(refused.status().unwrap().is(Status::INVALID_OPCODE));

    // An event that comes while something else is awaited is kept.
    assert_eq!(host.next_event(Duration::ZERO).unwrap(), None);
    host.delete_namespace(2).unwrap();
    let event = host.next_event(ANSWER_TIMEOUT).unwrap().unwrap();
    assert_eq!((event.kind(), event.info()), (EventType::NOTICE, NoticeInfo::NAMESPACE_ATTRIBUTE_CHANGED.0));
    assert_eq!(event.lid(), LogId::CHANGED_NAMESPACES);
    assert_eq!(host.changed_namespaces().unwrap(), [2]);
    assert_eq!(host.allocated_namespaces().unwrap(), [1]);
    host.detach_namespace(1, &[5, 5]).unwrap();
    assert!(host.active_namespaces().unwrap().is_empty());
}

#[test]
fn allocated_blocks_are_listed_in_several_answers() {
    let (_dir, _shared, mut silent) = connect(target::Config::default());
    assert!(!silent.reports_allocation().unwrap(), "it has no page of the NVM Command Set");
    let (_dir, shared, mut host) = with_namespace(target::Config::default());
    shared.lock().unwrap().allocated = Some(vec![(10, 5), (15, 5), (30, 1), (100, 200)]);
    assert!(host.reports_allocation().unwrap());
    let ns = host.namespace(1).unwrap();
    let mut extents = |lba, blocks, most| -> Vec<(u64, bool)> {
        let found = host.extents(ExtentQuery::new(&ns, lba, blocks, most)).unwrap();
        found.iter().map(|extent| (extent.blocks, extent.allocated)).collect()
    };
    let all = [(10, false), (10, true), (10, false), (1, true), (69, false), (200, true), (700, false)];
    assert_eq!(extents(0, 1000, 8), all);
    assert_eq!(extents(0, 1000, 3), all[..3]);
    assert_eq!(extents(0, 12, 8), [(10, false), (2, true)], "no further than asked");
    assert_eq!(extents(500, 500, 1), [(500, false)]);
}

#[test]
fn a_power_cut_while_limits_are_read_says_nothing_of_them() {
    let (_dir, shared, mut host) = connect(target::Config::default());
    shared.lock().unwrap().allocated = Some(Vec::new());
    shared.lock().unwrap().loses_power = true;
    assert!(host.limits().unwrap_err().is_lost());
    assert!(host.reports_allocation().unwrap(), "it is asked again");
}

#[test]
fn long_transfers_are_split_and_come_back_whole() {
    for in_capsule in [8192, 65536] {
        let (_dir, shared, mut host) = with_namespace(target::Config { in_capsule, ..Default::default() });
        let ns = host.namespace(1).unwrap();
        assert_eq!((ns.blocks, ns.block_size), (1000, 512));
        let mut queue = host.io_queue(64).unwrap();
        assert_eq!(queue.raw().capacity(), 16, "as many as CAP.MQES says");
        let data: Vec<u8> = (0..900 * BLOCK).map(|i| (i % 251) as u8).collect();
        shared.lock().unwrap().seen.clear();
        queue.write(&ns, 50, &data, true).unwrap();
        let mut read = vec![0; data.len()];
        queue.read(&ns, 50, &mut read).unwrap();
        assert!(read == data);
        for command in &shared.lock().unwrap().seen {
            match IoCommand::parse(command).unwrap() {
                IoCommand::Write(b) => assert!(b.fua && b.nlb <= 32),
                IoCommand::Read(b) => assert!(b.nlb <= 32),
                other => panic!("{other:?}"),
            }
        }
        queue.flush(1).unwrap();
        queue.compare(&ns, 50, &data[..BLOCK]).unwrap();
        let differs = queue.compare(&ns, 51, &data[..BLOCK]).unwrap_err();
        assert!(differs.status().unwrap().is(Status::COMPARE_FAILURE));
        queue.write_zeroes(&ns, 60, 3, true).unwrap();
        queue.deallocate(&ns, 70, 1).unwrap();
        queue.deallocate(&ns, 80, 2).unwrap();
        queue.read(&ns, 50, &mut read).unwrap();
        let zero: Vec<usize> = read
            .chunks(BLOCK)
            .enumerate()
            .filter(|(_, block)| block.iter().all(|byte| *byte == 0))
            .map(|(index, _)| index + 50)
            .collect();
        assert_eq!(zero, [60, 61, 62, 70, 80, 81]);
        assert!(matches!(queue.write(&ns, 0, &[0; 100], false), Err(Error::Usage(_))));
        queue.read(&ns, 0, &mut []).unwrap();
    }
}

#[test]
fn a_long_deallocation_is_cut_by_the_limits_of_the_drive() {
    let (_dir, shared, mut host) = with_namespace(target::Config::default());
    let ns = host.namespace(1).unwrap();
    let ns = Namespace { limits: Limits { deallocate: 50, ..ns.limits }, deallocate_range: 20, ..ns };
    let mut queue = host.io_queue(4).unwrap();
    queue.write(&ns, 0, &[1; 1000 * BLOCK], false).unwrap();
    shared.lock().unwrap().seen.clear();
    queue.deallocate(&ns, 100, 120).unwrap();
    let commands: Vec<_> = std::mem::take(&mut shared.lock().unwrap().seen);
    let ranges = commands.iter().map(|command| match IoCommand::parse(command).unwrap() {
        IoCommand::DatasetManagement(dsm) => dsm.nr,
        other => panic!("{other:?}"),
    });
    assert_eq!(ranges.collect::<Vec<_>>(), [3, 3, 1]);
    let mut read = vec![0; 1000 * BLOCK];
    queue.read(&ns, 0, &mut read).unwrap();
    let zero: Vec<usize> = (0..1000).filter(|block| read[block * BLOCK] == 0).collect();
    assert_eq!(zero, (100..220).collect::<Vec<_>>());
}

#[test]
fn a_failed_command_is_a_value_and_a_broken_connection_is_not() {
    let (_dir, shared, mut host) = with_namespace(target::Config::default());
    let ns = host.namespace(1).unwrap();
    let mut queue = host.io_queue(8).unwrap();
    shared.lock().unwrap().fail_next = Some(Status::UNRECOVERED_READ_ERROR.with_dnr());
    let failed = queue.read(&ns, 0, &mut vec![0; 900 * BLOCK]).unwrap_err();
    assert!(failed.status().unwrap().is(Status::UNRECOVERED_READ_ERROR));
    queue.read(&ns, 0, &mut vec![0; BLOCK]).unwrap();
    let done = queue.call(Command::flush(77), Data::None).unwrap();
    assert!(done.completion.status().is(Status::INVALID_NAMESPACE));

    // Several at once, by hand.
    let raw = queue.raw();
    let tags: Vec<_> =
        (0..8).map(|lba| raw.submit(Command::read(1, lba, 1), Data::room(BLOCK)).unwrap()).collect();
    assert!(matches!(raw.submit(Command::flush(1), Data::None), Err(TransportError::Full)));
    let mut done: Vec<_> = (0..8).map(|_| raw.next(Some(ANSWER_TIMEOUT)).unwrap().unwrap().tag).collect();
    done.sort_unstable();
    let mut expected = tags;
    expected.sort_unstable();
    assert_eq!(done, expected);
    assert_eq!(raw.next(Some(Duration::ZERO)).unwrap(), None);

    shared.lock().unwrap().cut = true;
    let broken = queue.flush(1).unwrap_err();
    assert!(matches!(broken, Error::Transport(TransportError::Closed)), "{broken:?}");
}

#[test]
fn a_power_cut_that_takes_its_own_answer_along_is_one() {
    let (_dir, shared, mut host) = connect(target::Config::default());
    shared.lock().unwrap().cut = true;
    host.power_cut(PowerCut::default()).unwrap();
    let broken = host.smart().unwrap_err();
    assert!(matches!(broken, Error::Transport(TransportError::Closed)), "{broken:?}");
}

#[test]
fn logs_and_views() {
    let (_dir, _shared, mut host) = with_namespace(target::Config::default());
    let json = |view: &dyn erased::Json| view.json();
    let smart = json(&view::SmartLog::from(&host.smart().unwrap()));
    assert!(smart.contains(r#""data_units_written":340282366920938463463374607431768211455,"#), "{smart}");
    assert!(smart.contains(r#""temperature_sensor_2":300"#) && !smart.contains("temperature_sensor_1"));

    let errors = host.errors().unwrap();
    assert_eq!(errors.len(), 100, "128 entries in two reads, the empty ones left out");
    assert_eq!(errors[99].error_count.get(), 1);
    assert!(json(&view::ErrorLog::new(&errors[..1])).starts_with(r#"{"errors":[{"error_count":100,"#));

    let statistics = json(&view::Statistics::from(&host.namespace_statistics(1).unwrap()));
    assert!(
        statistics.contains(r#""read_latency":{"count":3,"mean_ns":5000,"max_ns":5000,"p50_ns":5000"#),
        "{statistics}"
    );

    let missing = host.ocp_smart().unwrap_err();
    assert!(missing.status().unwrap().is(Status::INVALID_LOG_PAGE));

    let ctrl = json(&view::IdCtrl::from(host.controller()));
    assert!(ctrl.contains(r#""sn":"42                  ","#) && ctrl.contains(r#""mdts":2,"#), "{ctrl}");
    assert!(ctrl.contains(&format!(r#""subnqn":"{SUBNQN}""#)));
    let ns = host.identify_namespace(1).unwrap();
    let id_ns = json(&view::IdNs::from(&ns));
    assert!(id_ns.contains(r#""lbafs":[{"ms":0,"ds":9,"rp":0}]"#) && !id_ns.contains("npwg"), "{id_ns}");
    let list = json(&view::ListItem::new(host.controller(), 1, &ns, "/mnt/nvme0n1"));
    assert!(
        list.contains(r#""MaximumLBA":1000,"PhysicalSize":512000,"SectorSize":512"#)
            && list.contains(r#""NameSpace":1,"DevicePath":"/mnt/nvme0n1""#),
        "{list}"
    );
    assert_eq!(json(&view::ListNs::new(&[1, 2])), r#"{"nsid_list":[{"nsid":1},{"nsid":2}]}"#);
}

#[test]
fn nobody_there() {
    let addr: Addr = "unix:///nonexistent/drive.sock".parse().unwrap();
    let identity = Identity::new("nqn.2026-11.org.example:host".parse().unwrap());
    let error = Host::connect(SocketTransport::new(addr, ANSWER_TIMEOUT), &identity).unwrap_err();
    assert!(error.to_string().starts_with("connecting to unix:///nonexistent/drive.sock: No such file"));
}

#[test]
fn identities_differ() {
    let a = Identity::new("nqn.2026-11.org.example:a".parse().unwrap());
    let b = Identity::new("nqn.2026-11.org.example:b".parse().unwrap());
    assert_ne!(a.hostid, b.hostid);
    assert_ne!(a.hostid, [0; 16]);
}

mod erased {
    /// Anything that can be shown as JSON.
    pub trait Json {
        fn json(&self) -> String;
    }

    impl<T: serde::Serialize> Json for T {
        fn json(&self) -> String {
            serde_json::to_string(self).unwrap()
        }
    }
}
