//! Days since 1970-01-01 and the dates that they are.

/// Days since 1970-01-01 of a date that exists; None otherwise. Years 0 to 9999.
pub fn days(year: u32, month: u32, day: u32) -> Option<i32> {
    const LENGTHS: [u32; 13] = [0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = *LENGTHS.get(month as usize)? + u32::from(leap && month == 2);
    if day == 0 || day > length {
        return None;
    }
    // Years that start in March put the odd day at their end (Hinnant, days_from_civil).
    let shifted = year + 400 - u32::from(month <= 2);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let of_era = (shifted * 365 + shifted / 4) - shifted / 100 + shifted / 400 + of_year;
    Some(of_era as i32 - 719_468 - 146_097)
}

/// Year, month and day of a day since 1970 (Hinnant, civil_from_days).
#[inline(always)]
pub fn civil(day: i32) -> (i32, u32, u32) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i32::from(month <= 2), month as u32, of_month as u32)
}
