//! Zone Management Send for all zones, in steps: zones are reset or taken offline, some at a time. What was done stays done if power
//! goes: each zone is as it was, or as the host wants it.

use super::report::{STEP_ZONES, ZONE_TIME};
use crate::contents::Contents;
use crate::core::{CommandKind, Core, Cx, Failure, StepCost, Token, WORK_TIME};
use ftl::{
    Answer, PAGE, STEP_EMPTY_FACTOR, STEP_MAPPED_PAGES, VolumeId, ZoneAction, ZoneInfo, ZoneLayout,
    ZoneState, ZoneTarget,
};
use media::Nanos;

/// A command on its way.
#[derive(Debug)]
pub(crate) struct ZoneSweep {
    volume: VolumeId,
    layout: ZoneLayout,
    action: ZoneAction<'static>,
    /// The next zone.
    zone: u32,
}

impl ZoneSweep {
    pub fn new(volume: VolumeId, layout: ZoneLayout, action: ZoneAction<'static>) -> ZoneSweep {
        ZoneSweep { volume, layout, action, zone: 0 }
    }

    /// Changes some zones. With a time, it was the last step; the erase of blocks is a part of the command that may end later.
    pub fn step<S: Contents>(
        &mut self,
        core: &mut Core,
        token: &Token,
        cx: &mut Cx<'_, S>,
    ) -> (StepCost, Option<Result<Nanos, Failure>>) {
        let (first, mut work) = (self.zone, 0);
        while self.zone < self.layout.zones
            && self.zone - first < STEP_ZONES
            && work < STEP_MAPPED_PAGES * STEP_EMPTY_FACTOR
        {
            let Some(info) = core.ftl.zone(self.volume, self.zone) else { break };
            work += self.work(&info);
            self.zone += 1;
        }
        let looked = self.zone - first;
        let cost = StepCost::controller(Nanos(u64::from(looked) * ZONE_TIME + work * WORK_TIME));
        let end = match self.change(core, token, ZoneTarget::Range { first, count: looked }, cx) {
            Ok(at) => (looked == 0 || self.zone == self.layout.zones).then_some(Ok(at)),
            Err(failure) => Some(Err(failure)),
        };
        (cost, end)
    }

    /// What it takes to change a zone, as [`ftl::StepDone::work`] counts.
    fn work(&self, info: &ZoneInfo) -> u64 {
        if !self.action.concerns(info.state) {
            return 0;
        }
        let bytes = match info.state {
            ZoneState::Full | ZoneState::ReadOnly => self.layout.capacity,
            _ => info.written,
        };
        bytes / u64::from(PAGE) * STEP_EMPTY_FACTOR
    }

    fn change<S: Contents>(
        &self,
        core: &mut Core,
        token: &Token,
        target: ZoneTarget,
        cx: &mut Cx<'_, S>,
    ) -> Result<Nanos, Failure> {
        let io = token.io();
        let awaited = core.ftl.awaits_erase(self.volume, io);
        match core.ftl.manage_zones(cx.now, io, self.volume, target, self.action, cx.storage) {
            Answer::At(at) => Ok(at),
            Answer::Later => {
                // The erases of all steps have one answer, unless those of earlier ones have ended.
                core.commands.get_mut(token).parts += u8::from(!awaited);
                Ok(cx.now)
            }
            Answer::Failed(fault) => Err(Failure::of_fault(fault, CommandKind::Other)),
        }
    }
}
