//! Converts local times of other time zones to UTC, where a local time means exactly one point in
//! time.

use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, TimeZone};

/// Names of UTC.
pub const UTC: &[&str] = &["UTC", "Etc/UTC", "Zulu", "GMT"];

/// Other zones, whose rules have not changed for years, so that engines of every age agree on them; of
/// each, every quarter of an hour from 1970 to 2037 is compared with the engine's.
pub const ZONES: &[&str] = &[
    "Africa/Johannesburg",
    "Africa/Lagos",
    "Africa/Nairobi",
    "America/Anchorage",
    "America/Argentina/Buenos_Aires",
    "America/Chicago",
    "America/Denver",
    "America/Halifax",
    "America/Lima",
    "America/Los_Angeles",
    "America/New_York",
    "America/Phoenix",
    "America/Sao_Paulo",
    "America/Toronto",
    "Asia/Bangkok",
    "Asia/Calcutta",
    "Asia/Dubai",
    "Asia/Hong_Kong",
    "Asia/Jakarta",
    "Asia/Jerusalem",
    "Asia/Karachi",
    "Asia/Kolkata",
    "Asia/Seoul",
    "Asia/Shanghai",
    "Asia/Singapore",
    "Asia/Taipei",
    "Asia/Tokyo",
    "Australia/Adelaide",
    "Australia/Brisbane",
    "Australia/Melbourne",
    "Australia/Perth",
    "Australia/Sydney",
    "Europe/Amsterdam",
    "Europe/Athens",
    "Europe/Berlin",
    "Europe/Brussels",
    "Europe/Bucharest",
    "Europe/Budapest",
    "Europe/Copenhagen",
    "Europe/Dublin",
    "Europe/Helsinki",
    "Europe/Istanbul",
    "Europe/Lisbon",
    "Europe/London",
    "Europe/Madrid",
    "Europe/Moscow",
    "Europe/Oslo",
    "Europe/Paris",
    "Europe/Prague",
    "Europe/Rome",
    "Europe/Stockholm",
    "Europe/Vienna",
    "Europe/Warsaw",
    "Europe/Zurich",
    "Pacific/Auckland",
    "Pacific/Honolulu",
];

/// 1970-01-02 and 2037-12-31: before, zones have offsets of odd seconds; after, rules are guesses.
const FIRST: i64 = 86_400;
const LAST: i64 = 2_145_830_400;

/// Clocks are changed at quarters of an hour: in each of them the offset is the same.
const QUARTER: i64 = 900;
const SLOTS: usize = 256;

/// A time zone, and a cache of its offsets.
pub struct Zone {
    zone: TimeZone,
    /// Quarter of an hour and its offset in seconds, None where the quarter comes twice or never.
    found: Vec<(i64, Option<i64>)>,
}

impl Zone {
    /// The zone of a name; None for names that are not in [`ZONES`].
    pub fn new(name: &str) -> Option<Zone> {
        let name = ZONES.iter().find(|known| **known == name)?;
        // Quarter -1 is before FIRST: nothing was found.
        Some(Zone { zone: TimeZone::get(name).ok()?, found: vec![(-1, None); SLOTS] })
    }

    /// Convert local seconds since 1970 to UTC; None for local times that come twice or never, and
    /// before 1970-01-02 or after 2037-12-31.
    #[inline(always)]
    pub fn utc(&mut self, local: i64) -> Option<i64> {
        if !(FIRST..LAST).contains(&local) {
            return None;
        }
        let quarter = local / QUARTER;
        let slot = quarter as usize % SLOTS;
        if self.found[slot].0 != quarter {
            self.found[slot] = (quarter, self.offset(quarter));
        }
        self.found[slot].1.map(|offset| local - offset)
    }

    #[inline(never)]
    fn offset(&self, quarter: i64) -> Option<i64> {
        let clock = Timestamp::from_second(quarter * QUARTER).ok()?;
        let clock = TimeZone::UTC.to_datetime(clock);
        match self.zone.to_ambiguous_timestamp(clock).offset() {
            AmbiguousOffset::Unambiguous { offset } => Some(offset.seconds().into()),
            AmbiguousOffset::Gap { .. } | AmbiguousOffset::Fold { .. } => None,
        }
    }
}
