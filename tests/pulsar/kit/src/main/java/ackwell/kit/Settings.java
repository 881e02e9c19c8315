package ackwell.kit;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.common.configuration.FieldContext;

/**
 * Prints each setting of the broker by reflection, sorted by name: {@code name<TAB>default<TAB>dynamic}. A dynamic
 * setting, {@code true} or {@code false}, changes at run time.
 */
public final class Settings {
    private Settings() {}

    public static void main(String[] arguments) throws ReflectiveOperationException {
        Object configuration = new ServiceConfiguration();
        TreeMap<String, String> values = new TreeMap<>();
        for (Class<?> each = ServiceConfiguration.class; each != Object.class; each = each.getSuperclass()) {
            for (Field field : each.getDeclaredFields()) {
                FieldContext context = field.getAnnotation(FieldContext.class);
                if (context != null) {
                    field.setAccessible(true);
                    values.put(field.getName(), text(field.get(configuration)) + "\t" + context.dynamic());
                }
            }
        }
        values.forEach((name, value) -> System.out.println(name + "\t" + value));
    }

    /** Returns a value in one line; a set has no order, so its elements are sorted. */
    private static String text(Object value) {
        if (value instanceof Collection<?> elements) {
            List<String> texts = new ArrayList<>();
            elements.forEach(element -> texts.add(String.valueOf(element)));
            if (value instanceof Set) {
                texts.sort(null);
            }
            return String.join(",", texts);
        }
        return String.valueOf(value).replace("\n", " ");
    }
}
