//! What outlives power, a shutdown and the process.

use crate::common::{Bench, Memory, initial, pattern, small};
use device::{Drive, Host, InitialNamespace, LbaFormat, Origin, Output};
use ftl::{NoContents, Record, Section};
use media::Nanos;
use nvme::admin::{PowerCut, SetFeatures};
use nvme::feature::{FeatureId, Select};
use nvme::log::{LogId, OcpSmart, SmartHealth};
use nvme::{Command, NSID_ALL, Status};

fn smart(b: &mut Bench) -> SmartHealth {
    b.ask(Command::get_log_page(LogId::SMART, NSID_ALL, 0, 0, 512))
}

#[test]
fn capacitors_keep_what_was_acknowledged() {
    let mut b = Bench::with_namespaces(&[]);
    for nsid in [1, 2] {
        b.write(nsid, 5, 1, &pattern(nsid, 4096));
    }
    b.cut(true);
    assert_eq!(b.events, [Output::PowerCut { off: Nanos::ZERO, lossy: false }]);
    assert!(
        b.drive
            .connect(b.now, Host::administrator(crate::common::nqn("x"), [0; 16], Origin::Unix), 0xFFFF, 0)
            .is_err()
    );
    b.power_on();
    for nsid in [1, 2] {
        assert_eq!(b.read(nsid, 5, 1), pattern(nsid, 4096));
    }
    let log = smart(&mut b);
    assert_eq!((log.power_cycles.get(), log.unexpected_power_losses.get()), (2, 1));
    assert_eq!(log.critical_warning.into_bits(), 0);
}

#[test]
fn without_their_energy_it_is_lost_and_the_drive_says_so() {
    let mut b = Bench::with_namespaces(&[]);
    for nsid in [1, 2] {
        b.write(nsid, 5, 1, &pattern(nsid, 4096));
    }
    b.cut(false);
    b.power_on();
    for nsid in [1, 2] {
        assert_eq!(b.read(nsid, 5, 1), vec![0; 4096]);
    }
    assert!(smart(&mut b).critical_warning.vmbf());
    let ocp: OcpSmart = b.ask(Command::get_log_page(LogId::OCP_SMART, NSID_ALL, 0, 0, 512));
    assert_eq!(ocp.capacitor_health.get(), 0);
}

#[test]
fn a_volatile_write_cache_keeps_what_was_flushed() {
    let mut b = Bench::with_namespaces(&[("[drive]", "[drive]\npower_loss_protection = false")]);
    b.write(1, 0, 1, &pattern(1, 4096));
    assert_eq!(b.io(Command::flush(1), &[]).0, Status::SUCCESS);
    let mut fua = Command::write(1, 1, 1);
    fua.cdw12.set(fua.cdw12.get() | 1 << 30);
    assert_eq!(b.io(fua, &pattern(2, 4096)).0, Status::SUCCESS);
    b.write(1, 2, 1, &pattern(3, 4096));
    b.cut(true);
    b.power_on();
    assert_eq!(b.read(1, 0, 1), pattern(1, 4096));
    assert_eq!(b.read(1, 1, 1), pattern(2, 4096));
    assert_eq!(b.read(1, 2, 1), vec![0; 4096]);
    // A forced read makes durable what it returns.
    b.write(1, 4, 1, &pattern(5, 4096));
    let mut fua = Command::read(1, 4, 1);
    fua.cdw12.set(fua.cdw12.get() | 1 << 30);
    assert_eq!(b.io(fua, &[]), (Status::SUCCESS, pattern(5, 4096)));
    b.cut(true);
    b.power_on();
    assert_eq!(b.read(1, 4, 1), pattern(5, 4096));
    // With the cache off, every write is as if forced.
    b.admin_ok(Command::set_features(FeatureId::VOLATILE_WRITE_CACHE, 0, 0), &[]);
    let syncs = b.syncs;
    b.write(1, 3, 1, &pattern(4, 4096));
    assert_eq!(b.syncs, syncs + 1);
    b.cut(true);
    b.power_on();
    assert_eq!(b.read(1, 3, 1), pattern(4, 4096));
    assert_eq!(
        b.admin_ok(Command::get_features(FeatureId::VOLATILE_WRITE_CACHE, 0, Select::CURRENT), &[]).0,
        1
    );
}

#[test]
fn saved_features_outlive_power() {
    let mut b = Bench::new(small(&[]));
    let set = |sv, fid, cdw11| SetFeatures { nsid: 0, fid, sv, uidx: 0, cdw11, cdw12: 0, cdw13: 0, cdw15: 0 };
    b.admin_ok(set(true, FeatureId::TEMPERATURE_THRESHOLD, 350), &[]);
    b.admin_ok(set(false, FeatureId::TEMPERATURE_THRESHOLD, 360), &[]);
    b.admin_ok(set(false, FeatureId::ARBITRATION, 3), &[]);
    let mut get = |fid, sel| b.admin_ok(Command::get_features(fid, 0, sel), &[]).0;
    assert_eq!(get(FeatureId::TEMPERATURE_THRESHOLD, Select::CURRENT), 360);
    assert_eq!(get(FeatureId::TEMPERATURE_THRESHOLD, Select::SAVED), 350);
    assert_eq!(get(FeatureId::TEMPERATURE_THRESHOLD, Select::DEFAULT), 343);
    assert_eq!(get(FeatureId::TEMPERATURE_THRESHOLD, Select::SUPPORTED_CAPABILITIES), 0b101);
    assert_eq!(get(FeatureId::ARBITRATION, Select::CURRENT), 3);
    assert_eq!(get(FeatureId::ARBITRATION, Select::SAVED), 7, "saving one feature saves no other");
    b.cut(true);
    b.power_on();
    let mut get = |fid, sel| b.admin_ok(Command::get_features(fid, 0, sel), &[]).0;
    assert_eq!(get(FeatureId::TEMPERATURE_THRESHOLD, Select::CURRENT), 350);
    assert_eq!(get(FeatureId::ARBITRATION, Select::CURRENT), 7);
}

#[test]
fn a_cut_says_whether_it_may_have_taken_completed_writes() {
    let unprotected = ("[drive]", "[drive]\npower_loss_protection = false");
    for (changes, energy, lossy) in
        [(&[][..], true, false), (&[][..], false, true), (&[unprotected][..], true, true)]
    {
        let mut b = Bench::with_namespaces(changes);
        b.cut(energy);
        assert_eq!(b.events, [Output::PowerCut { off: Nanos::ZERO, lossy }]);
    }
}

#[test]
fn the_vendor_command_cuts_the_power() {
    let mut b = Bench::with_namespaces(&[("[drive]", "[drive]\ntiming = true")]);
    let me = b.controller;
    let read = b.submit(me, 1, &Command::read(1, 0, 1), &[]);
    let (got, _) = b.admin(PowerCut { off_ms: 20, ..PowerCut::default() }, &[]);
    // The command completes, the power goes, what was in flight is forgotten.
    assert_eq!(got.status(), Status::SUCCESS);
    b.run_until(Nanos::MAX);
    assert_eq!(b.events, [Output::PowerCut { off: Nanos(20_000_000), lossy: false }]);
    assert!(!b.done.contains_key(&read) && b.drive.in_flight() == 0 && b.drive.next_event().is_none());
    let (got, _) = b.on(me, 1, &Command::read(1, 0, 1), &[]);
    assert!(got.status().is(Status::POWER_LOSS));
    b.power_on();
    // And after some operations of the media.
    b.events.clear();
    b.admin_ok(PowerCut { after_media_ops: 10, ..PowerCut::default() }, &[]);
    let mut writes = 0;
    while b.drive.is_powered() {
        b.submit(b.controller, 1, &Command::write(1, writes, 1), &pattern(1, 4096));
        b.run_until(Nanos::MAX);
        writes += 1;
        assert!(writes < 1000, "the cut comes");
    }
    assert!(writes > 10, "{writes} writes");
    assert_eq!(b.events, [Output::PowerCut { off: Nanos::ZERO, lossy: false }]);
}

#[test]
fn an_orderly_shutdown_is_no_power_loss() {
    let mut b = Bench::with_namespaces(&[]);
    b.write(1, 0, 1, &pattern(9, 4096));
    let mut out = Vec::new();
    b.drive.shut_down(b.now, &mut b.memory, &mut out);
    b.run_until(Nanos::MAX);
    assert!(out.contains(&Output::ShutDown) || b.events.contains(&Output::ShutDown));
    b.cut(true);
    b.power_on();
    assert_eq!(b.read(1, 0, 1), pattern(9, 4096));
    let log = smart(&mut b);
    assert_eq!((log.power_cycles.get(), log.unexpected_power_losses.get()), (2, 0));
}

#[test]
fn saved_state_opens_again() {
    let mut config = small(&[]);
    config.namespaces.push(InitialNamespace { format: LbaFormat::plain(512), ..initial(1, 4 << 20) });
    let mut b = Bench::new(config.clone());
    let data = pattern(3, 4096);
    b.write(1, 8, 8, &data);
    let saved = b.drive.save();
    // The host hides the namespace after the state was saved: a record tells.
    let list = nvme::identify::ControllerList::new([b.controller.0]);
    let detach =
        nvme::admin::NamespaceAttachment { nsid: 1, sel: nvme::admin::NamespaceAttachmentSelect::DETACH };
    b.admin_ok(detach, &crate::common::bytes(&list));
    let mut memory = std::mem::take(&mut b.memory);
    let last = memory.controller_records.last().unwrap().clone();

    let reopen = |memory: &mut Memory, last: Option<&[u8]>| {
        let mut restorer = Drive::restore(config.clone(), &saved).unwrap();
        if let Some(bytes) = last {
            restorer.apply(&Record::Section { kind: Section::Controller, bytes }).unwrap();
        }
        restorer.finish(Nanos(5), memory).unwrap()
    };
    let mut again = Bench::around(reopen(&mut memory.clone(), Some(&last)), Memory::default());
    assert!(again.io(Command::read(1, 0, 1), &[]).0.is(Status::INVALID_FIELD), "it is hidden");
    let drive = reopen(&mut memory, None);
    let mut again = Bench::around(drive, memory);
    assert_eq!(again.read(1, 8, 8), data);
    let log = smart(&mut again);
    assert_eq!((log.power_cycles.get(), log.unexpected_power_losses.get()), (2, 1));
    assert_eq!(log.data_units_written.get(), 1);

    // Every truncation and every foreign start is an error, not a panic.
    for len in (0..saved.len()).step_by(saved.len() / 200 + 1) {
        assert!(Drive::restore(config.clone(), &saved[..len]).is_err(), "{len} bytes");
    }
    for byte in 0..saved.len().min(2000) {
        let mut bad = saved.clone();
        bad[byte] ^= 0x40;
        if let Ok(restorer) = Drive::restore(config.clone(), &bad) {
            let _ = restorer.finish(Nanos::ZERO, &mut NoContents);
        }
    }
    let mut newer = saved.clone();
    newer[4] = 9;
    let error = Drive::restore(config, &newer).err().unwrap().to_string();
    assert!(error.contains("version 9") && error.contains("version 1"), "{error}");
}
